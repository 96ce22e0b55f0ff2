"""The README's Python runs as it stands, on a network and a pipeline of a few thousand weights."""

import re
from pathlib import Path

import pytest

README = Path(__file__).resolve().parents[2] / "README.md"


def blocks() -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", README.read_text(encoding="utf-8"), re.S | re.M)


def test_there_is_a_block_for_torch_and_one_for_diffusers():
    assert ["dyweight.Model(" in block for block in blocks()] == [True, False]
    assert ["few_steps(" in block for block in blocks()] == [False, True]


def test_the_block_for_torch_runs(tmp_path, monkeypatch):
    pytest.importorskip("dyweight._native")
    torch = pytest.importorskip("torch")
    import dyweight

    monkeypatch.chdir(tmp_path)
    # As it stands, but for how long it learns.
    whole = dyweight.train
    monkeypatch.setattr(dyweight, "train", lambda *given, **more: whole(*given, **more, iters=2, validation=4), raising=False)
    sigmas = torch.linspace(0.0125, 20, 50, dtype=torch.float64)
    # The exact noise prediction of normal data of variance 1/4 at timestep t.
    level = lambda t: (0.0125 + t * (20 - 0.0125) / 49).reshape(-1, 1, 1, 1)  # noqa: E731
    network = lambda x, t: x * level(t) * (1 + level(t) ** 2).sqrt() / (0.25 + level(t) ** 2)  # noqa: E731
    here = {"dyweight": dyweight, "network": network, "sigmas": sigmas}
    exec(compile(blocks()[0], "README.md", "exec"), here)
    assert here["images"].shape == (16, 3, 64, 64)
    assert abs(float(torch.as_tensor(here["images"]).std()) - 0.5) < 0.05
    assert (tmp_path / "solver.json").exists()


def pipeline(diffusers, torch):
    """Stable Diffusion of a few thousand random weights; every prompt says the same."""
    torch.manual_seed(0)
    unet = diffusers.UNet2DConditionModel(
        sample_size=8, block_out_channels=(8, 16), layers_per_block=1, norm_num_groups=4, cross_attention_dim=32,
        attention_head_dim=2, down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"),
        up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"),
    )
    vae = diffusers.AutoencoderKL(
        block_out_channels=(8, 16), norm_num_groups=4, down_block_types=("DownEncoderBlock2D",) * 2,
        up_block_types=("UpDecoderBlock2D",) * 2, latent_channels=4,
    )
    pipe = diffusers.StableDiffusionPipeline(
        unet=unet, vae=vae, text_encoder=None, tokenizer=None, safety_checker=None, feature_extractor=None,
        requires_safety_checker=False,
        scheduler=diffusers.EulerDiscreteScheduler(
            beta_start=0.00085, beta_end=0.012, beta_schedule="scaled_linear", steps_offset=1
        ),
    )
    said = (torch.randn(1, 5, 32), torch.randn(1, 5, 32))
    pipe.encode_prompt = lambda *_, **__: said
    pipe.set_progress_bar_config(disable=True)
    return pipe


def test_the_block_for_diffusers_runs():
    pytest.importorskip("dyweight._native")
    diffusers = pytest.importorskip("diffusers")
    torch = pytest.importorskip("torch")
    import dyweight

    if not hasattr(dyweight, "few_steps"):
        pytest.skip("this build has no few_steps")
    here = {"dyweight": dyweight, "pipe": pipeline(diffusers, torch)}
    exec(compile(blocks()[1], "README.md", "exec"), here)
    assert here["image"].size == (16, 16)
    assert here["found"].num_inference_steps == 5
