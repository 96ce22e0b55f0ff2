"""The nodes in a real ComfyUI, asked over HTTP on loopback: COMFYUI_DIR names the checkout (tests/comfyui/run)."""

import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from dyweight.solver_file import SolverFile

HERE = Path(__file__).resolve().parent
CHECKOUT = os.environ.get("COMFYUI_DIR")
pytestmark = pytest.mark.skipif(not CHECKOUT, reason="COMFYUI_DIR names no checkout of ComfyUI")
PRESETS = {"eps": "ms-coco-nfe16", "v": "ms-coco-nfe8", "flow": "flux-nfe5"}


class Server:
    """A ComfyUI of its own folder, with our nodes and one that makes tiny models."""

    def __init__(self, base):
        self.base = base
        for name in ("custom_nodes", "models", "input", "output"):
            (base / name).mkdir()
        shutil.copytree(HERE.parents[1] / "comfyui" / "dyweight", base / "custom_nodes" / "dyweight")
        shutil.copy(HERE / "comfyui_tiny.py", base / "custom_nodes")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.url = f"http://127.0.0.1:{free.getsockname()[1]}"
        self.log = open(base / "log", "w+")  # noqa: SIM115
        self.process = subprocess.Popen(
            [sys.executable, "main.py", "--cpu", "--listen", "127.0.0.1", "--port", self.url.rsplit(":", 1)[1],
             "--base-directory", base, "--database-url", "sqlite:///:memory:", "--disable-api-nodes"],
            cwd=CHECKOUT, stdout=self.log, stderr=subprocess.STDOUT, env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        )  # fmt: skip

    def wait(self):
        for _ in range(600):
            if self.process.poll() is not None:
                raise AssertionError((self.base / "log").read_text()[-3000:])
            try:
                return self.ask("/queue")
            except (urllib.error.URLError, ConnectionError):
                time.sleep(0.5)
        raise AssertionError("ComfyUI does not answer")

    def ask(self, path, data=None):
        body = None if data is None else json.dumps(data).encode()
        with urllib.request.urlopen(self.url + path, body, timeout=60) as answer:
            text = answer.read()
        return json.loads(text) if text else None

    def queue(self, graph):
        return self.ask("/prompt", {"prompt": graph})["prompt_id"]

    def run(self, graph):
        """What the nodes show, or what the run failed with."""
        asked = self.queue(graph)
        while not (history := self.ask(f"/history/{asked}")):
            time.sleep(0.2)
        status = history[asked]["status"]
        if status["status_str"] != "success":
            raise RuntimeError([data for name, data in status["messages"] if name.startswith("execution_")][-1])
        return history[asked]["outputs"]

    def latent(self, outputs, node):
        (file,) = outputs[node]["latents"]
        return load_file(self.base / "output" / file["subfolder"] / file["filename"])["latent_tensor"]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    server = Server(tmp_path_factory.mktemp("comfyui"))
    try:
        server.wait()
        yield server
    finally:
        server.process.terminate()
        server.process.wait()
        server.log.close()


def node(kind, /, **inputs):
    return {"class_type": kind, "inputs": inputs}


def sampled(model, sampler, sigmas, latent=("tiny", 3), add_noise=True):
    return node(
        "SamplerCustom", model=list(model), add_noise=add_noise, noise_seed=5, cfg=3.0, positive=["tiny", 1],
        negative=["tiny", 2], sampler=list(sampler), sigmas=list(sigmas), latent_image=list(latent),
    )  # fmt: skip


def learning(name, **more):
    options = {"cfg": 3.0, "steps": 3, "pairs": 2, "reference_steps": 10, "first_seed": 0, "denoise": 1.0}
    wires = {"model": ["tiny", 0], "positive": ["tiny", 1], "negative": ["tiny", 2], "latent": ["tiny", 3]}
    return node("DyWeightLearnSolver", **wires, **{**options, "file_name": name, "overwrite": False, **more})


@pytest.mark.parametrize("kind", PRESETS)
def test_a_preset_whole_and_in_two_parts(server, kind):
    """Two samplers that share a run, as with two experts, end where one does."""
    graph = {
        "tiny": node("TinyModel", kind=kind),
        "solver": node("DyWeightLoadSolver", solver=f"preset: {PRESETS[kind]}"),
        "ours": node("DyWeightSamplerAndSigmas", model=["tiny", 0], solver=["solver", 0], denoise=1.0),
        "other": node("DyWeightSamplerAndSigmas", model=["tiny", 0], solver=["solver", 0], denoise=1.0),
        "parts": node("SplitSigmas", sigmas=["ours", 2], step=2),
        "whole": sampled(("ours", 0), ("ours", 1), ("ours", 2)),
        "first": sampled(("ours", 0), ("ours", 1), ("parts", 0)),
        "second": sampled(("other", 0), ("other", 1), ("parts", 1), ("first", 0), add_noise=False),
        "saved": node("SaveLatent", samples=["whole", 0], filename_prefix="whole"),
        "saved parts": node("SaveLatent", samples=["second", 0], filename_prefix="parts"),
    }
    outputs = server.run(graph)
    whole, parts = server.latent(outputs, "saved"), server.latent(outputs, "saved parts")
    assert np.isfinite(whole).all() and np.abs(whole).max() > 0
    np.testing.assert_allclose(parts, whole, atol=1e-4 * np.abs(whole).max())


@pytest.mark.parametrize("kind", ["eps", "v", "flow", "edm", "aura"])
def test_a_solver_is_learned_and_sampled_with(server, kind):
    graph = {
        "tiny": node("TinyModel", kind=kind),
        "learn": learning(f"learned {kind}"),
        "ours": node("DyWeightSamplerAndSigmas", model=["tiny", 0], solver=["learn", 0], denoise=1.0),
        "end": sampled(("ours", 0), ("ours", 1), ("ours", 2)),
        "saved": node("SaveLatent", samples=["end", 0], filename_prefix=kind),
    }
    outputs = server.run(graph)
    (text,) = outputs["learn"]["text"]
    print(text)
    assert "dpmpp_2m" in text and "uni_pc" in text and "closer than" in text
    solver = SolverFile.load(server.base / "models" / "dyweight" / f"learned {kind}.json")
    assert solver.calls == 3 and solver.prediction == ("velocity" if kind in ("flow", "aura") else "denoised")
    assert np.isfinite(server.latent(outputs, "saved")).all()
    names = server.ask("/object_info/DyWeightLoadSolver")["DyWeightLoadSolver"]["input"]["required"]["solver"][0]
    assert f"learned {kind}.json" in names


def test_a_file_is_not_replaced_unless_told(server):
    folder = server.base / "models" / "dyweight"
    folder.mkdir(exist_ok=True)
    (folder / "mine.json").write_text("mine")
    graph = {"tiny": node("TinyModel", kind="flow"), "learn": learning("mine", steps=1, pairs=2, reference_steps=4)}
    with pytest.raises(RuntimeError, match="is there already"):
        server.run(graph)
    assert (folder / "mine.json").read_text() == "mine"
    with pytest.raises(urllib.error.HTTPError):
        server.run({**graph, "learn": learning("../mine")})
    graph["learn"]["inputs"]["overwrite"] = True
    server.run(graph)
    assert SolverFile.load(folder / "mine.json").calls == 1


def test_learning_is_cancelled_and_leaves_no_file(server):
    graph = {"tiny": node("TinyModel", kind="eps"), "learn": learning("never", pairs=1000, reference_steps=100)}
    asked = server.queue(graph)
    while not server.ask("/queue")["queue_running"]:
        time.sleep(0.1)
    time.sleep(2.0)
    server.ask("/interrupt", {})
    while not (history := server.ask(f"/history/{asked}")):
        time.sleep(0.2)
    names = [name for name, _ in history[asked]["status"]["messages"]]
    assert "execution_interrupted" in names, history[asked]["status"]
    assert not list((server.base / "models" / "dyweight").glob("*never*"))


def test_denoise_that_cannot_be_kept_is_refused(server):
    graph = {
        "tiny": node("TinyModel", kind="flow"),
        "solver": node("DyWeightLoadSolver", solver="preset: flux-nfe5"),
        "ours": node("DyWeightSamplerAndSigmas", model=["tiny", 0], solver=["solver", 0], denoise=0.5),
        "end": sampled(("ours", 0), ("ours", 1), ("ours", 2)),
        "saved": node("SaveLatent", samples=["end", 0], filename_prefix="never"),
    }
    with pytest.raises(RuntimeError, match="SplitSigmasDenoise"):
        server.run(graph)


def test_every_input_and_output_is_described(server):
    for name in ("DyWeightLoadSolver", "DyWeightSamplerAndSigmas", "DyWeightSigmas", "DyWeightLearnSolver"):
        said = server.ask(f"/object_info/{name}")[name]
        assert said["description"] and said["category"] == "sampling/dyweight"
        assert len(said["output_tooltips"]) == len(said["output"])
        assert all(given[1]["tooltip"] for given in said["input"]["required"].values()), name
