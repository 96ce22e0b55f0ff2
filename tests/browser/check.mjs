// The checks behind `run`. Each opens the page afresh; what a page does not have is passed over, unless EVERY_KIND says
// that it should have everything.
import assert from "node:assert/strict";
import { mkdirSync } from "node:fs";
import { basename, join } from "node:path";
import { pathToFileURL } from "node:url";
import { chromium } from "playwright-core";

const pages = process.argv.slice(2);
const shots = process.env.SHOTS;
if (shots) mkdirSync(shots, { recursive: true });

const DESKTOP = { width: 1280, height: 900 };
const PHONE = { width: 360, height: 740 };

const args = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"];
args.push("--disable-component-update", "--disable-sync", "--disable-dev-shm-usage");
// The driver gives the browser a new, empty profile and removes it.
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM, headless: true, args });

/** Opens the page and hands it to `visit`; console errors and requests are failures, unless `allowed` matches them. */
async function open(file, { allowed, ...options }, visit) {
  const context = await browser.newContext({ viewport: DESKTOP, ...options });
  try {
    const page = await context.newPage();
    const complaints = [];
    page.on("console", (m) => ["error", "warning"].includes(m.type()) && complaints.push(m.text()));
    page.on("pageerror", (error) => complaints.push(String(error)));
    page.on("request", (request) => {
      const url = request.url();
      if (!url.startsWith("data:") && url.split("#")[0] !== pathToFileURL(file).href) complaints.push(`request: ${url}`);
    });
    await page.goto(pathToFileURL(file).href);
    await visit(page);
    assert.deepEqual(complaints.filter((c) => !allowed?.test(c)), [], "console errors or requests");
  } finally {
    await context.close();
  }
}

/** Elements of a kind; none is a failure only where every kind must be there. */
async function some(page, selector) {
  const found = await page.locator(selector).count();
  if (process.env.EVERY_KIND) assert.ok(found > 0, `the sample has no ${selector}`);
  return found > 0;
}

const shoot = async (page, file, name) => {
  if (shots) await page.screenshot({ path: join(shots, `${basename(file, ".html")}-${name}.png`), fullPage: true });
};

const noSideways = async (page) => {
  const [inside, window] = await page.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
  assert.ok(inside <= window, `the page is ${inside} px wide in a window of ${window} px`);
};

const checks = {
  "structure: one h1, headings without gaps, labels, alternative texts, unique ids": async (file) => {
    await open(file, {}, async (page) => {
      const found = await page.evaluate(() => {
        const all = (s) => [...document.querySelectorAll(s)];
        const levels = all("h1, h2, h3, h4").map((h) => Number(h.tagName[1]));
        const ids = all("[id]").map((e) => e.id);
        return {
          tops: levels.filter((l) => l === 1).length,
          gap: levels.some((l, i) => i > 0 && l > levels[i - 1] + 1),
          unnamed: all("img").filter((i) => !i.alt).length + all("svg[role=img]").filter((s) => !s.ariaLabel).length,
          unlabelled: all("input").filter((i) => !i.ariaLabel && !i.labels.length).length,
          dead: all("a[href^='#']").filter((a) => !document.getElementById(a.hash.slice(1))).length,
          outside: all("[src], link, [href]").filter((e) => /^(https?:)?\/\//.test(e.getAttribute("src") || e.getAttribute("href") || "")).length,
          doubled: ids.length - new Set(ids).size,
          policy: document.querySelector("meta[http-equiv=Content-Security-Policy]").content,
        };
      });
      assert.match(found.policy, /^default-src 'none';/);
      delete found.policy;
      assert.deepEqual(found, { tops: 1, gap: false, unnamed: 0, unlabelled: 0, dead: 0, outside: 0, doubled: 0 });
    });
  },

  "the policy forbids the network": async (file) => {
    // The attempt and its refusal are reported, and wanted.
    await open(file, { allowed: /Content Security Policy|probe\.png/ }, async (page) => {
      const refused = await page.evaluate(
        () =>
          new Promise((done) => {
            document.addEventListener("securitypolicyviolation", () => done(true), { once: true });
            const probe = new Image();
            probe.onload = probe.onerror = () => setTimeout(() => done(false), 500);
            probe.src = "http://localhost:9/probe.png";
          }),
      );
      assert.ok(refused);
    });
  },

  "the result comes first, in one sentence": async (file) => {
    await open(file, {}, async (page) => {
      if (!(await some(page, ".headline"))) return;
      const found = await page.evaluate(() => {
        const top = (s) => document.querySelector(s)?.getBoundingClientRect().top ?? Infinity;
        const text = document.querySelector(".headline").textContent;
        const size = (s) => parseFloat(getComputedStyle(document.querySelector(s)).fontSize);
        return { sentences: text.split(/[.!?](?:\s|$)/).filter((t) => t.trim()).length, larger: size(".headline") > size("main p"),
          first: top(".headline") < Math.min(top("figure"), top(".lead"), top(".verdict"), top(".findings")) };
      });
      assert.deepEqual(found, { sentences: 1, larger: true, first: true });
    });
  },

  "tables and figures are numbered through, and heads have no stray signs": async (file) => {
    await open(file, { hasTouch: true, isMobile: true, viewport: PHONE }, async (page) => {
      const found = await page.evaluate(() => {
        const numbers = (word) =>
          [...document.querySelectorAll("figcaption b")].map((b) => b.textContent).filter((t) => t.startsWith(word)).map((t) => parseInt(t.split(" ")[1], 10));
        const through = (list) => list.every((n, i) => n === i + 1);
        const shown = (e) => getComputedStyle(e, "::after").opacity !== "0" && getComputedStyle(e, "::after").content !== "none";
        const heads = [...document.querySelectorAll("thead th")];
        return { tables: through(numbers("Table")), figures: through(numbers("Figure")),
          captions: [...document.querySelectorAll("figure")].filter((f) => !f.querySelector("figcaption b")).length,
          stray: heads.filter((h) => /[↑↓↕]/.test(h.textContent)).length + [...document.querySelectorAll("th button")].filter(shown).length };
      });
      assert.deepEqual(found, { tables: true, figures: true, captions: 0, stray: 0 });
    });
  },

  "the teacher stands beside the slider, or below it on a phone": async (file) => {
    for (const [viewport, beside] of [[DESKTOP, true], [PHONE, false]]) {
      await open(file, { viewport }, async (page) => {
        if (!(await some(page, ".measured .beside"))) return;
        const figure = page.locator(".measured:visible").first();
        await figure.scrollIntoViewIfNeeded();
        const [pair, teacher] = [await figure.locator(".pair").boundingBox(), await figure.locator(".beside img").first().boundingBox()];
        if (beside) assert.ok(teacher.x >= pair.x + pair.width && Math.abs(teacher.y - pair.y) < 4, "beside");
        else assert.ok(teacher.y >= pair.y + pair.height, "below");
        assert.ok(Math.abs(teacher.width - pair.width) < 4, "of the same size");
      });
    }
  },

  "a table that goes on is in shade at its edge": async (file) => {
    await open(file, { viewport: PHONE }, async (page) => {
      const wide = await page.evaluate(() => {
        const goesOn = (e) => e.getClientRects().length && e.scrollWidth > e.clientWidth + 1;
        const style = (e) => getComputedStyle(e);
        const all = [...document.querySelectorAll(".table .scroll")].filter(goesOn);
        return { count: all.length, plain: all.filter((e) => !style(e).backgroundAttachment.includes("local") || !style(e).backgroundImage.includes("gradient")).length };
      });
      if (process.env.EVERY_KIND) assert.ok(wide.count > 0, "the sample has a wide table");
      assert.equal(wide.plain, 0);
    });
  },

  "small pictures keep their pixels, drawings do not show theirs": async (file) => {
    await open(file, {}, async (page) => {
      const wrong = await page.evaluate(() =>
        [...document.querySelectorAll("img")].filter((i) => (getComputedStyle(i).imageRendering === "pixelated") !== i.naturalWidth <= 560).length);
      assert.equal(wrong, 0);
      if (process.env.EVERY_KIND) assert.ok((await page.locator("img.fine").count()) > 0, "the sample has a drawing");
    });
  },

  "links lead to files beside the page": async (file) => {
    await open(file, {}, async (page) => {
      if (!(await some(page, ".files a"))) return;
      const odd = await page.evaluate(() => [...document.querySelectorAll(".files a")].map((a) => a.getAttribute("href")).filter((h) => !/^[\w.~%-][\w.~%/-]*$/.test(h)));
      assert.deepEqual(odd, []);
    });
  },

  "contrast of text is at least 4.5, light and dark": async (file) => {
    for (const colorScheme of ["light", "dark"]) {
      await open(file, { colorScheme }, async (page) => {
        const poor = await page.evaluate(contrasts);
        assert.deepEqual(poor, [], `${colorScheme}: poor contrast`);
      });
    }
  },

  "sliders follow the mouse and the arrow keys": async (file) => {
    await open(file, {}, async (page) => {
      if (!(await some(page, ".compare .pair"))) return;
      const pair = page.locator(".compare .pair:visible").first();
      const clip = () => pair.locator(".right").evaluate((e) => getComputedStyle(e).clipPath);
      await pair.scrollIntoViewIfNeeded();
      const [box, before] = [await pair.boundingBox(), await clip()];
      await page.mouse.move(box.x + box.width / 2, box.y + 20);
      await page.mouse.down();
      await page.mouse.move(box.x + box.width / 4, box.y + 25, { steps: 4 });
      await page.mouse.up();
      const dragged = await clip();
      assert.notEqual(dragged, before, "dragging changes the clip");
      assert.match(dragged, /2[45](\.\d+)?%/);
      await page.mouse.move(box.x + box.width * 0.9, box.y + 25);
      assert.equal(await clip(), dragged, "a released divider stays");
      const control = page.locator(".compare:visible input[type=range]").first();
      await control.focus();
      await page.keyboard.press("ArrowRight");
      await page.keyboard.press("ArrowRight");
      assert.notEqual(await clip(), dragged, "keys change the clip");
      await page.keyboard.press("End");
      assert.match(await clip(), /100%/);
    });
  },

  "sliders and charts answer to touch": async (file) => {
    await open(file, { hasTouch: true, isMobile: true, viewport: PHONE }, async (page) => {
      if (await some(page, ".compare .pair")) {
        const pair = page.locator(".compare .pair:visible").first();
        await pair.scrollIntoViewIfNeeded();
        const box = await pair.boundingBox();
        await page.touchscreen.tap(box.x + box.width * 0.8, box.y + box.height / 2);
        const cut = await pair.evaluate((e) => e.style.getPropertyValue("--cut"));
        assert.ok(Math.abs(parseFloat(cut) - 80) < 2, `the divider went to ${cut}`);
      }
      if (await some(page, ".chart tr[data-at]")) {
        await pointAtFirstValue(page, (x, y) => page.touchscreen.tap(x, y));
      }
    });
  },

  "names stand on the pictures of a slider, and its handle is seen": async (file) => {
    await open(file, {}, async (page) => {
      if (!(await some(page, ".compare .pair"))) return;
      const pair = page.locator(".compare .pair:visible").first();
      const box = await pair.boundingBox();
      for (const tag of await pair.locator(".tag").all()) {
        const own = await tag.boundingBox();
        assert.ok(own && own.y >= box.y - 1 && own.y + own.height < box.y + box.height, "a name on its picture");
      }
      const handle = await pair.evaluate((e) => parseFloat(getComputedStyle(e, "::before").width));
      assert.ok(handle >= 36, `the handle is ${handle} px wide`);
    });
  },

  "a phone sees the first picture of the result on its first screen": async (file) => {
    await open(file, { viewport: PHONE, hasTouch: true, isMobile: true }, async (page) => {
      const pair = page.locator("main > section:first-child .compare .pair:visible").first();
      if (!(await pair.count())) return;
      const { y } = await pair.boundingBox();
      assert.ok(y < PHONE.height - 200, `it begins at ${y} px`);
    });
  },

  "drawings follow the dark page, pictures do not": async (file) => {
    for (const [colorScheme, turned] of [["dark", true], ["light", false]]) {
      await open(file, { colorScheme }, async (page) => {
        if (!(await some(page, ".drawn img"))) return;
        const filters = (selector) => page.locator(selector).evaluateAll((all) => all.map((e) => getComputedStyle(e).filter !== "none"));
        assert.ok((await filters(".drawn img")).every((f) => f === turned), `${colorScheme}: drawings`);
        assert.ok((await filters("figure:not(.drawn) img")).every((f) => !f), `${colorScheme}: pictures`);
      });
    }
  },

  "the first printed page has the first picture": async (file) => {
    await open(file, { viewport: { width: 673, height: 985 } }, async (page) => {
      await page.emulateMedia({ media: "print" });
      const pair = page.locator("main > section:first-child .compare .pair").first();
      if (!(await pair.count())) return;
      const box = await pair.boundingBox();
      assert.ok(box.y + box.height < 985, `it ends at ${box.y + box.height} px of 985`);
      assert.equal(await page.getByText("Drag").count(), 0, "nothing to drag on paper");
    });
  },

  "tabs show one variant at a time, by mouse and keys": async (file) => {
    await open(file, {}, async (page) => {
      if (!(await some(page, ".choice [role=tab]"))) return;
      const choice = page.locator(".choice").first();
      const shown = () => choice.locator(":scope > section:visible").evaluateAll((s) => s.map((e) => e.dataset.name));
      const first = await shown();
      assert.equal(first.length, 1);
      if ((await choice.locator("[role=tab]").count()) < 2) return;
      await choice.locator("[role=tab]").nth(1).click();
      const second = await shown();
      assert.equal(second.length, 1);
      assert.notDeepEqual(second, first);
      await page.keyboard.press("ArrowLeft");
      assert.deepEqual(await shown(), first);
      assert.equal(await choice.locator("[aria-selected=true]").count(), 1);
    });
  },

  "tables sort by click and by key": async (file) => {
    await open(file, {}, async (page) => {
      if (!(await some(page, "table.sortable th button"))) return;
      const table = page.locator("table.sortable:visible:has(th button)").first();
      const head = table.locator("thead th").last();
      const column = async () => {
        const read = (rows) => rows.map((r) => r.cells[r.cells.length - 1].dataset.value).filter((v) => v !== undefined);
        return (await table.locator("tbody tr").evaluateAll(read)).map(Number);
      };
      await head.locator("button").click();
      const order = await head.getAttribute("aria-sort");
      assert.ok(["ascending", "descending"].includes(order));
      const rising = (await column()).sort((a, b) => a - b);
      assert.deepEqual(await column(), order === "ascending" ? rising : [...rising].reverse());
      await head.locator("button").focus();
      await page.keyboard.press("Enter");
      assert.notEqual(await head.getAttribute("aria-sort"), order);
      assert.deepEqual(await column(), order === "ascending" ? [...rising].reverse() : rising);
      assert.equal(await table.locator("th[aria-sort]").count(), 1);
      if (process.env.EVERY_KIND) {
        // The gap of the sample stays last, whichever way is up.
        for (let i = 0; i < 2; i++) {
          await table.locator("thead th").nth(1).locator("button").click();
          assert.equal(await table.locator("tbody tr").last().locator("td").first().textContent(), "–");
        }
      }
    });
  },

  "charts tell values under the pointer and by keys": async (file) => {
    await open(file, {}, async (page) => {
      if (!(await some(page, ".chart tr[data-at]"))) return;
      await pointAtFirstValue(page, (x, y) => page.mouse.move(x, y));
      const chart = page.locator(".chart:visible:has(tr[data-at])").first();
      await page.mouse.move(2, 2);
      await chart.locator(".sheet").focus();
      await page.keyboard.press("End");
      const last = await chart.locator("tr[data-at]").last().locator("td").last().textContent();
      assert.ok((await chart.locator(".tip").textContent()).includes(last));
      assert.ok((await chart.locator("[role=status]").textContent()).includes(last), "it is announced");
      await page.keyboard.press("Escape");
      assert.equal(await chart.locator(".tip").textContent(), "");
    });
  },

  "dark follows the system, and the button turns it": async (file) => {
    await open(file, { colorScheme: "dark" }, async (page) => {
      const light = () => page.evaluate(() => Number(getComputedStyle(document.body).backgroundColor.match(/\d+/)[0]));
      assert.ok((await light()) < 64, "dark paper");
      await shoot(page, file, "dark");
      await page.locator("button.theme").click();
      assert.ok((await light()) > 192, "light paper after the button");
      await page.locator("button.theme").click();
      assert.ok((await light()) < 64, "dark again");
    });
  },

  "a phone needs no sideways scrolling": async (file) => {
    for (const javaScriptEnabled of [true, false]) {
      await open(file, { viewport: PHONE, javaScriptEnabled, deviceScaleFactor: 2 }, async (page) => {
        // Without scripts a page cannot be asked for its width, but a screenshot of it can.
        if (javaScriptEnabled) await noSideways(page);
        if (javaScriptEnabled) await shoot(page, file, "phone");
        const wide = await page.locator("main").boundingBox();
        assert.ok(wide.x >= 0 && wide.x + wide.width <= PHONE.width, "the text column fits");
      });
    }
  },

  "wide windows need none either": async (file) => {
    for (const width of [480, 700, 1000, 1280, 1900]) {
      await open(file, { viewport: { width, height: 900 } }, async (page) => {
        await noSideways(page);
        if (width === 1280) await shoot(page, file, "light");
      });
    }
  },

  "without scripts everything is there": async (file) => {
    await open(file, { javaScriptEnabled: false }, async (page) => {
      await shoot(page, file, "plain");
      assert.equal(await page.locator("button, input").count(), 0, "no controls that do nothing");
      assert.equal(await page.locator(".choice > section:not(:visible)").count(), 0, "all variants");
      if (await some(page, ".compare")) {
        const first = page.locator(".compare").first();
        const images = first.locator(".pair img");
        const [a, b] = [await images.first().boundingBox(), await images.last().boundingBox()];
        assert.ok(a.x + a.width <= b.x && Math.abs(a.y - b.y) < 2, "both pictures, side by side");
      }
      if (await some(page, "details.values")) {
        await page.locator("details.values summary").first().click();
        assert.ok(await page.locator("details.values td").first().isVisible(), "values can be opened");
      }
    });
  },

  "print: light, pairs side by side, no controls": async (file) => {
    await open(file, { colorScheme: "dark" }, async (page) => {
      await page.emulateMedia({ media: "print", colorScheme: "dark" });
      const paper = await page.evaluate(() => Number(getComputedStyle(document.body).backgroundColor.match(/\d+/)[0]));
      assert.ok(paper > 240, "light paper");
      assert.equal(await page.locator("input:visible, .theme:visible, .copy:visible, [role=tab]:visible").count(), 0);
      assert.equal(await page.locator(".choice > section:not(:visible)").count(), 0, "all variants");
      if (await some(page, ".compare")) {
        const images = page.locator(".compare").first().locator(".pair img");
        const [a, b] = [await images.first().boundingBox(), await images.last().boundingBox()];
        assert.ok(a.x + a.width <= b.x && Math.abs(a.y - b.y) < 2, "both pictures, side by side");
      }
      if (shots) await page.pdf({ path: join(shots, `${basename(file, ".html")}.pdf`), preferCSSPageSize: true });
    });
  },
};

/** Points at the first listed value of the first chart and expects to be told it. */
async function pointAtFirstValue(page, point) {
  const chart = page.locator(".chart:visible:has(tr[data-at])").first();
  await chart.scrollIntoViewIfNeeded();
  const { x, y, value } = await chart.evaluate((figure) => {
    const svg = [...figure.querySelectorAll("svg")].find((s) => s.getClientRects().length);
    const row = figure.querySelector("tr[data-at]");
    const at = row.dataset.at.split(" ").map(Number).slice(svg.classList.contains("narrow") ? 2 : 0);
    const box = svg.getBoundingClientRect();
    const scale = box.width / svg.viewBox.baseVal.width;
    const value = row.cells[row.cells.length - 1].textContent;
    return { x: box.left + at[0] * scale, y: box.top + at[1] * scale, value };
  });
  await point(x, y);
  const told = await chart.locator(".tip").textContent();
  assert.ok(told.includes(value), `told “${told}” instead of “${value}”`);
}

/** Runs in the page: texts whose colour is too close to what is behind them. */
function contrasts() {
  const parse = (colour) => (colour.match(/[\d.]+/g) || []).map(Number);
  const luminance = (rgb) => {
    const [r, g, b] = rgb.slice(0, 3).map((v) => (v / 255 <= 0.03928 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (element) => {
    for (let e = element; e; e = e.parentElement) {
      const colour = parse(getComputedStyle(e).backgroundColor);
      if (colour.length === 3 || colour[3] > 0.7) return colour;
    }
    return [255, 255, 255];
  };
  const poor = new Set();
  for (const element of document.querySelectorAll("body *:not(svg *, script, style)")) {
    const own = [...element.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim());
    if (!own || !element.getClientRects().length) continue;
    const pair = [parse(getComputedStyle(element).color), behind(element)].map(luminance).sort((a, b) => b - a);
    const ratio = (pair[0] + 0.05) / (pair[1] + 0.05);
    if (ratio < 4.5) poor.add(`${element.tagName}.${element.className} ${ratio.toFixed(2)}`);
  }
  return [...poor];
}

let failures = 0;
for (const file of pages) {
  console.log(file);
  for (const [name, check] of Object.entries(checks)) {
    try {
      await check(file);
      console.log(`  ok    ${name}`);
    } catch (error) {
      failures += 1;
      console.log(`  FAIL  ${name}\n        ${String(error.message).split("\n").slice(0, 12).join("\n        ")}`);
    }
  }
}
await browser.close();
process.exit(failures ? 1 : 0);
