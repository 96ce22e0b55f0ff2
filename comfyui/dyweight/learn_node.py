"""The node that learns a solver for what is loaded."""

import logging

import comfy.model_management
import comfy.utils

from .files import new_path, write
from .learning import LEARNED, LONG, REFERENCE, Options, Runs, learn, most_evaluations
from .rivals import SCHEDULERS
from .solver_file import SolverFile


def _number(kind, default, least, most, tooltip, **more):
    return kind, {"default": default, "min": least, "max": most, "tooltip": tooltip, **more}


class LearnSolver:
    """Learns a solver of few steps for this model, conditioning, guidance and latent size, by sampling with them alone:
    no gradients, in the memory of sampling. Compares it with dpmpp_2m and uni_pc on fresh noise and says which is
    closer to many steps. The solver file is in models/dyweight afterwards."""

    CATEGORY, FUNCTION, OUTPUT_NODE = "sampling/dyweight", "learn", True
    RETURN_TYPES, RETURN_NAMES = ("DYWEIGHT_SOLVER", "STRING"), ("solver", "report")
    OUTPUT_TOOLTIPS = (
        "The learned solver, for DyWeight sampler and sigmas.",
        "What was learned, how far it is from many steps, and how far ComfyUI's own samplers are.",
    )

    @classmethod
    def INPUT_TYPES(cls):
        return {
            "required": {
                "model": ("MODEL", {"tooltip": "The model as it will be sampled with: LoRAs and patches included."}),
                "positive": ("CONDITIONING", {"tooltip": "A typical prompt. The solver serves other prompts, too."}),
                "negative": ("CONDITIONING", {"tooltip": "The negative prompt; not used where cfg is 1."}),
                "latent": ("LATENT", {"tooltip": "An empty latent of the size to be sampled; a batch of 1 will do."}),
                "cfg": _number("FLOAT", 7.0, 0.0, 100.0, "The guidance that will be sampled with.", step=0.1),
                "steps": _number("INT", 5, 1, 50, "Network evaluations of one sample."),
                "pairs": _number("INT", 16, 2, 1024, "Noises to learn from; half as many to stop by, and to judge by."),
                "reference_steps": _number("INT", 50, 4, 1000, "Steps of the run that the solver comes close to."),
                "first_seed": _number("INT", 0, 0, 2**53, "Of the noises. The same seed gives the same solver."),
                "denoise": _number(
                    "FLOAT", 1.0, 0.05, 1.0, step=0.01,
                    tooltip="Below 1 for image to image: runs begin at the latent's picture, where so much of the"
                    " model's timesteps is left.",
                ),  # fmt: skip
                "file_name": ("STRING", {"default": "solver", "tooltip": "Of the solver file in models/dyweight."}),
                "overwrite": ("BOOLEAN", {"default": False, "tooltip": "Replace a file of this name."}),
            }
        }

    @classmethod
    def VALIDATE_INPUTS(cls, file_name):
        try:
            new_path(str(file_name))
        except ValueError as error:
            return str(error)
        return True

    def learn(self, model, positive, negative, latent, cfg, file_name, overwrite, first_seed, **options):
        path = new_path(file_name)
        _refuse_existing(path, overwrite)
        options = Options(seed=first_seed, **options)
        bar = comfy.utils.ProgressBar(most_evaluations(options))

        def watch(evaluations):
            comfy.model_management.throw_exception_if_processing_interrupted()
            if evaluations:
                bar.update(evaluations)

        runs = Runs(model, positive, negative, cfg, latent, watch)
        logging.info(f"DyWeight: learning {options.steps} steps, at most {bar.total} evaluations")
        found = learn(runs, options)
        _refuse_existing(path, overwrite)
        write(path, found.record)
        bar.update_absolute(bar.total)
        text = report(found, options, path)
        logging.info(text)
        return {"ui": {"text": (text,)}, "result": (SolverFile(found.record), text)}


def _refuse_existing(path, overwrite):
    if path.exists() and not overwrite:
        raise FileExistsError(
            f"DyWeight: models/dyweight/{path.name} is there already: use it (Load DyWeight solver), choose another"
            " file_name, or turn overwrite on"
        )


def report(found, options, path):
    """What was learned, in a few lines."""
    width, lines = max(map(len, found.distances)), []
    for name, distance in found.distances.items():
        setting = found.settings.get(name)
        chosen = f"  {setting}, the best of {len(SCHEDULERS)} schedulers" if setting else ""
        lines.append(f"  {name:{width}}  {distance:.4f}{chosen}")
    long = LONG[found.record["prediction"] == "velocity"]
    before, after = found.validation
    return "\n".join([
        f"{options.steps} evaluations; distance to {options.reference_steps} steps of {REFERENCE} ({long}),"
        f" {options.held} fresh noises:",
        *lines,
        _verdict(found),
        f"Began as {found.start}; on the noises that it was stopped by {before:.4f} -> {after:.4f}.",
        f"{found.evaluations} evaluations, {found.seconds:.0f} s; guidance {found.record['training']['cfg']:g}."
        f" Written to models/dyweight/{path.name}",
        *found.notes,
    ])  # fmt: skip


def _verdict(found):
    rival = found.best_rival
    if rival is None:
        return "None of ComfyUI's own samplers runs here: nothing was compared."
    ours, theirs, setting = found.distances[LEARNED], found.distances[rival], f"{rival} with {found.settings[rival]}"
    if found.is_closer:
        return f"The learned solver is {theirs / max(ours, 1e-30):.2f} times closer than {setting}."
    return f"The learned solver is NOT closer than {setting}: sample with that, or learn from more pairs."
