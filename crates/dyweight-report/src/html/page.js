// What scripts add to a page that already reads without them. No libraries, no network, nothing remembered.
(() => {
  "use strict";
  const root = document.documentElement;
  const all = (selector, inside = document) => [...inside.querySelectorAll(selector)];
  const make = (tag, properties = {}, ...children) => {
    const element = Object.assign(document.createElement(tag), properties);
    element.append(...children);
    return element;
  };
  root.classList.add("js");

  // Light or dark: the reader's system decides until the button is used.
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const theme = make("button", { type: "button", className: "theme" });
  const isDark = () => (root.dataset.theme || (dark.matches ? "dark" : "light")) === "dark";
  const nameTheme = () => {
    theme.textContent = isDark() ? "Light" : "Dark";
    theme.setAttribute("aria-label", `Switch to ${isDark() ? "light" : "dark"} colours`);
  };
  theme.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    nameTheme();
  });
  dark.addEventListener("change", nameTheme);
  nameTheme();
  if (CSS.supports("color", "light-dark(#000, #fff)")) document.body.prepend(theme);

  // Tables: a button in each head; cells without a number stay last whichever way is up.
  const compareCells = (a, b, sign) => {
    const [x, y] = [a, b].map((cell) => (cell.dataset.value === undefined ? NaN : Number(cell.dataset.value)));
    if (!Number.isNaN(x) && !Number.isNaN(y)) return sign * (x < y ? -1 : x > y ? 1 : 0);
    if (!Number.isNaN(x) || !Number.isNaN(y)) return Number.isNaN(x) ? 1 : -1;
    const empty = [a, b].map((cell) => cell.classList.contains("none"));
    if (empty[0] !== empty[1]) return empty[0] ? 1 : -1;
    return sign * a.textContent.localeCompare(b.textContent, "en", { numeric: true });
  };
  const sortBy = (table, head) => {
    const order = head.getAttribute("aria-sort");
    const flipped = order === "ascending" ? "descending" : "ascending";
    const next = order ? flipped : head.dataset.first;
    all("thead th", table).forEach((other) => other.removeAttribute("aria-sort"));
    head.setAttribute("aria-sort", next);
    const sign = next === "ascending" ? 1 : -1;
    const rows = [...table.tBodies[0].rows];
    rows.sort((a, b) => compareCells(a.cells[head.cellIndex], b.cells[head.cellIndex], sign));
    table.tBodies[0].append(...rows);
  };
  for (const table of all("table.sortable")) {
    if (table.tBodies[0].rows.length < 2) continue;
    for (const head of all("thead th", table)) {
      const name = head.querySelector(".name");
      const button = make("button", { type: "button", title: "Sort by this column" }, ...name.childNodes);
      button.addEventListener("click", () => sortBy(table, head));
      name.append(button);
    }
  }

  // Charts: the value nearest to the pointer, or one after the other by the arrow keys.
  const enliven = (figure) => {
    const sheet = figure.querySelector(".sheet");
    const spots = all("tr[data-at]", figure).map((row) => ({
      at: row.dataset.at.split(" ").map(Number),
      texts: [...row.cells].map((cell) => cell.textContent).filter(Boolean),
    }));
    if (!spots.length) return;
    const tip = make("div", { className: "tip" });
    const spoken = make("div", { className: "skip" });
    spoken.setAttribute("role", "status");
    const ring = document.createElementNS("http://www.w3.org/2000/svg", "circle");
    ring.setAttribute("class", "ring");
    ring.setAttribute("r", "5.5");
    sheet.append(tip, spoken);
    let current = -1;

    const drawing = () => all("svg", sheet).find((svg) => svg.getClientRects().length) || sheet.querySelector("svg");
    const place = (spot, svg) => (svg.classList.contains("narrow") ? spot.at.slice(2) : spot.at.slice(0, 2));
    const hide = () => {
      current = -1;
      tip.replaceChildren();
      ring.remove();
    };
    const show = (index, aloud) => {
      if (index === current) return;
      current = index;
      const svg = drawing();
      const [x, y] = place(spots[index], svg);
      const scale = svg.getBoundingClientRect().width / svg.viewBox.baseVal.width;
      const texts = spots[index].texts;
      const title = texts.slice(0, -2).join(" · ");
      tip.replaceChildren(...(title ? [make("b", {}, title)] : []), ...texts.slice(-2).map((t) => make("span", {}, t)));
      ring.setAttribute("cx", x);
      ring.setAttribute("cy", y);
      svg.append(ring);
      // Beside the point, on the side where there is room, and never outside the sheet.
      const room = sheet.clientWidth - tip.offsetWidth;
      const beside = x * scale + 14 <= room ? x * scale + 14 : x * scale - tip.offsetWidth - 14;
      tip.style.left = `${Math.max(0, Math.min(room, beside))}px`;
      tip.style.top = `${Math.max(0, y * scale - tip.offsetHeight / 2)}px`;
      if (aloud) spoken.textContent = texts.join(", ");
    };
    const point = (event) => {
      const svg = drawing();
      const box = svg.getBoundingClientRect();
      const scale = box.width / svg.viewBox.baseVal.width;
      const [x, y] = [(event.clientX - box.left) / scale, (event.clientY - box.top) / scale];
      const far = spots.map((spot) => Math.hypot(place(spot, svg)[0] - x, place(spot, svg)[1] - y));
      const nearest = far.indexOf(Math.min(...far));
      if (far[nearest] < 40) show(nearest, false);
      else hide();
    };
    sheet.addEventListener("pointermove", point);
    sheet.addEventListener("pointerdown", point);
    sheet.addEventListener("pointerleave", (event) => event.pointerType === "mouse" && hide());
    sheet.addEventListener("blur", hide);
    sheet.tabIndex = 0;
    sheet.setAttribute("role", "group");
    sheet.setAttribute("aria-label", "Chart; arrow keys read its values");
    sheet.addEventListener("keydown", (event) => {
      const last = spots.length - 1;
      const moves = { ArrowRight: current + 1, ArrowDown: current + 1, Home: 0, End: last };
      Object.assign(moves, { ArrowLeft: current < 0 ? last : current - 1, ArrowUp: current < 0 ? last : current - 1 });
      if (event.key === "Escape") hide();
      if (!(event.key in moves)) return;
      event.preventDefault();
      show(Math.max(0, Math.min(last, moves[event.key])), true);
    });
  };
  all("figure.chart").forEach(enliven);

  // Pairs of pictures become sliders: by the control below, or by dragging on the picture.
  for (const figure of all("figure.compare")) {
    const pair = figure.querySelector(".pair");
    const [left, right] = all(".tag", pair).map((tag) => tag.textContent);
    const range = make("input", { type: "range", min: 0, max: 100, step: 1, value: 50 });
    range.setAttribute("aria-label", `Divider between ${left} and ${right}`);
    const move = () => {
      pair.style.setProperty("--cut", `${range.value}%`);
      range.setAttribute("aria-valuetext", `${range.value} % ${left}`);
    };
    const follow = (event) => {
      const box = pair.getBoundingClientRect();
      range.value = Math.round((100 * (event.clientX - box.left)) / box.width);
      move();
    };
    pair.addEventListener("pointerdown", (event) => {
      pair.setPointerCapture(event.pointerId);
      follow(event);
    });
    pair.addEventListener("pointermove", (event) => pair.hasPointerCapture(event.pointerId) && follow(event));
    range.addEventListener("input", move);
    move();
    pair.after(make("div", { className: "control" }, make("span", {}, left), range, make("span", {}, right)));
  }

  // Variants become tabs.
  all(".choice").forEach((choice, group) => {
    const panels = all(":scope > section", choice);
    const list = make("div");
    list.setAttribute("role", "tablist");
    list.setAttribute("aria-label", choice.dataset.label);
    const tabs = panels.map((panel, index) => {
      const tab = make("button", { type: "button", id: `tab-${group}-${index}` }, panel.dataset.name);
      tab.setAttribute("role", "tab");
      panel.id = `panel-${group}-${index}`;
      tab.setAttribute("aria-controls", panel.id);
      panel.setAttribute("role", "tabpanel");
      panel.setAttribute("aria-labelledby", tab.id);
      return tab;
    });
    const select = (chosen, focus) => {
      tabs.forEach((tab, index) => {
        tab.setAttribute("aria-selected", String(index === chosen));
        tab.tabIndex = index === chosen ? 0 : -1;
        panels[index].hidden = index !== chosen;
      });
      if (focus) tabs[chosen].focus();
    };
    tabs.forEach((tab, index) => {
      tab.addEventListener("click", () => select(index, false));
      tab.addEventListener("keydown", (event) => {
        const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
        if (step) select((index + step + tabs.length) % tabs.length, true);
      });
    });
    list.append(...tabs);
    choice.prepend(make("div", { className: "tabs" }, make("span", {}, choice.dataset.label), list));
    if (tabs.length) select(0, false);
  });

  // Command lines can be copied, where the browser lets a local file do so.
  for (const code of navigator.clipboard ? all(".code") : []) {
    const button = make("button", { type: "button", className: "copy" }, "Copy");
    button.addEventListener("click", async () => {
      try {
        await navigator.clipboard.writeText(code.querySelector("code").textContent);
        button.textContent = "Copied";
      } catch {
        getSelection().selectAllChildren(code.querySelector("code"));
        button.textContent = "Selected";
      }
      setTimeout(() => (button.textContent = "Copy"), 1500);
    });
    code.append(button);
  }
})();
