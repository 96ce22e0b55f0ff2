"""Where solver files are: models/dyweight, and the released ones in this folder."""

import json
import os
import re
from pathlib import Path

import folder_paths

FOLDER = "dyweight"
RELEASED = Path(__file__).with_name("solvers")
_PRESET = "preset: "
folder_paths.add_model_folder_path(FOLDER, str(Path(folder_paths.models_dir) / FOLDER))
folder_paths.folder_names_and_paths[FOLDER] = (folder_paths.folder_names_and_paths[FOLDER][0], {".json"})


def choices():
    """Names of all solvers."""
    released = [_PRESET + path.stem for path in sorted(RELEASED.glob("*.json"))]
    return [*folder_paths.get_filename_list(FOLDER), *released]


def path_of(name):
    """The file of a name."""
    if name.startswith(_PRESET):
        return RELEASED / (name.removeprefix(_PRESET) + ".json")
    return folder_paths.get_full_path_or_raise(FOLDER, name)


def new_path(name):
    """Where a new file of a name is written. Anything but a plain name is refused."""
    stem = name.strip().removesuffix(".json")
    if not re.fullmatch(r"[\w .+=-]{1,100}", stem) or stem.startswith(".") or stem != stem.strip(" ."):
        raise ValueError(f"DyWeight: {name!r} is no file name: letters, digits, spaces and - _ . + = are")
    return Path(folder_paths.folder_names_and_paths[FOLDER][0][0]) / f"{stem}.json"


def write(path, record):
    """Writes a solver file, all or nothing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with open(partial, "w", encoding="utf-8") as file:
            json.dump(record, file, indent=1, allow_nan=False)
            file.write("\n")
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)
