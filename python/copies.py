"""Writes the copies that let files be used on their own: `python python/copies.py` after a change to an original.

`dyweight/diffusers.py` works alone and so holds the solver-file reader; the ComfyUI folder holds what it runs.
"""

from pathlib import Path

HERE = Path(__file__).resolve().parent
PACKAGE, COMFYUI = HERE / "dyweight", HERE.parent / "comfyui" / "dyweight"
START, END = "# --- solver file:", "# --- end of solver file ---"
# Released coefficients for models that ComfyUI runs.
COMFYUI_PRESETS = ("ms-coco-", "flux-")


def split(text):
    """What is before, between and after the marks of the reader."""
    start, end = text.index("\n", text.index(START)) + 1, text.index(END)
    return text[:start], text[start:end], text[end:]


def copies():
    """(path, content) of every copy."""
    reader = (PACKAGE / "solver_file.py").read_text(encoding="utf-8")
    alone = (PACKAGE / "diffusers.py").read_text(encoding="utf-8")
    before, _, after = split(alone)
    yield PACKAGE / "diffusers.py", before + split(reader)[1] + after
    yield COMFYUI / "solver_file.py", reader
    yield COMFYUI / "k_diffusion.py", (PACKAGE / "k_diffusion.py").read_text(encoding="utf-8")
    yield from _presets()


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
