"""Writes the copies that let files be used on their own: `python python/copies.py` after a change to an original.

`dyweight_scheduler.py` is the scheduler in one file; the ComfyUI folder holds what it runs.
"""

import ast
from pathlib import Path

HERE = Path(__file__).resolve().parent
PACKAGE, COMFYUI = HERE / "dyweight", HERE.parent / "comfyui" / "dyweight"
# Released coefficients for models that ComfyUI runs.
COMFYUI_PRESETS = ("ms-coco-", "flux-")


# What `python/dyweight_scheduler.py` is made of.
ALONE = ("solver_file", "identity", "process", "scheduler")
# What the ComfyUI nodes begin to learn from.
FORMULAS = ("Start", "adams", "_integral", "second_order_multistep")


def copies():
    """(path, content) of every copy."""
    yield HERE / "dyweight_scheduler.py", alone()
    yield COMFYUI / "solver_file.py", (PACKAGE / "solver_file.py").read_text(encoding="utf-8")
    yield COMFYUI / "k_diffusion.py", (PACKAGE / "k_diffusion.py").read_text(encoding="utf-8")
    yield COMFYUI / "starts.py", formulas()
    for name in ("LICENSE-APACHE", "LICENSE-MIT"):
        for folder in (HERE, COMFYUI):
            yield folder / name, (HERE.parent / name).read_text(encoding="utf-8")
    yield from _presets()


def alone():
    """The scheduler and what it needs of the package, in one file."""
    head = '"""The scheduler of the package dyweight in one file, to stand beside a script. Written by python/copies.py."""\n\nfrom __future__ import annotations\n'
    parts = [(PACKAGE / f"{name}.py").read_text(encoding="utf-8") for name in ALONE]
    return head + "".join(f"\n# --- {name}.py ---\n\n{_without_package(part)}" for name, part in zip(ALONE, parts))


def formulas():
    """The handcrafted solvers that need no scheduler of diffusers."""
    text = (PACKAGE / "starts.py").read_text(encoding="utf-8")
    head = (
        '"""Handcrafted solvers as weights of slopes: where learning begins. Written by python/copies.py."""\n\n'
        "from __future__ import annotations\n\nimport math\n"
        "from collections.abc import Sequence\nfrom dataclasses import dataclass\n"
    )
    nodes = {node.name: node for node in ast.parse(text).body if hasattr(node, "name")}
    lines = text.splitlines(keepends=True)
    first = {name: min([node.lineno, *(d.lineno for d in node.decorator_list)]) for name, node in nodes.items()}
    return head + "".join("\n\n" + "".join(lines[first[name] - 1 : nodes[name].end_lineno]) for name in FORMULAS)


def _without_package(text):
    lines = text.splitlines(keepends=True)
    return "".join(line for line in lines if not line.startswith(("from .", "from __future__")))


def _presets():
    import json
    import sys

    sys.path.insert(0, str(HERE))
    from dyweight.presets import preset, preset_names

    for name in preset_names():
        if name.startswith(COMFYUI_PRESETS):
            yield COMFYUI / "solvers" / f"{name}.json", json.dumps(preset(name).record, indent=1) + "\n"


if __name__ == "__main__":
    for path, content in copies():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")
