"""Makes crates/dyweight-models/tests/data/flux: a tiny FLUX transformer in bf16 and T5 with its tokenizer, and what diffusers and
transformers say of them. CLIP and the autoencoder of the tests are those of `tests/data/latent`.

usage: make_flux_fixtures.py      needs torch, diffusers, transformers, tokenizers, safetensors
"""

import json
import pathlib
import shutil
import sys

import torch
from diffusers import FlowMatchEulerDiscreteScheduler, FluxTransformer2DModel
from safetensors.torch import save_file
from transformers import T5Config, T5EncoderModel

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "python"))
import tiny_flux  # noqa: E402

TEXTS = ["", "a photo of the cat", " The  cafe\u0301s, ２ dogs'\ttails! ", "cat</s>dog <unk>s", "\u6f22\u5b57 in the \ufb01eld", "cats " * 30]

out = ROOT / "crates" / "dyweight-models" / "tests" / "data" / "flux"
shutil.rmtree(out, ignore_errors=True)
out.mkdir(parents=True)


def save(name, **tensors):
    save_file({k: v.detach().contiguous() for k, v in tensors.items()}, out / f"{name}.io.safetensors")


def shaken(network):
    """Fresh normalisations are ones and zeros, which would hide an exchange of their weights; rounded to what is written."""
    for parameter in network.parameters():
        if parameter.dim() == 1:
            parameter.data += 0.1 * torch.randn_like(parameter)
        parameter.data = parameter.data.bfloat16().float()
    return network.eval()


torch.manual_seed(4)
transformer = shaken(FluxTransformer2DModel(
    in_channels=16, num_layers=2, num_single_layers=1, attention_head_dim=8, num_attention_heads=2, joint_attention_dim=16,
    pooled_projection_dim=16, guidance_embeds=True, axes_dims_rope=(2, 2, 4)))
x, context, pooled = torch.randn(2, 6, 16, requires_grad=True), torch.randn(2, 5, 16), torch.randn(2, 16)
t, guidance = torch.tensor([0.93, 0.21], requires_grad=True), torch.tensor([3.5, 1.25])
img_ids = torch.tensor([[0.0, r, s] for r in range(2) for s in range(3)])
txt_ids = torch.zeros(5, 3)
velocity = transformer(
    hidden_states=x, timestep=t, guidance=guidance, encoder_hidden_states=context, pooled_projections=pooled, img_ids=img_ids,
    txt_ids=txt_ids, return_dict=False)[0]
cotangent = torch.randn_like(velocity)
gx, gt = torch.autograd.grad((velocity * cotangent).sum(), [x, t])
save("transformer", x=x, t=t, guidance=guidance, context=context, pooled=pooled, img_ids=img_ids, txt_ids=txt_ids, cotangent=cotangent,
     velocity=velocity, grad_x=gx, grad_t=gt)
transformer.to(torch.bfloat16).save_pretrained(out / "transformer", max_shard_size="30KB")

t5 = shaken(T5EncoderModel(T5Config(
    vocab_size=32, d_model=16, d_kv=4, d_ff=24, num_layers=2, num_heads=3, feed_forward_proj="gated-gelu", is_encoder_decoder=False,
    use_cache=False)))
tokenizer = tiny_flux.t5_tokenizer()
ids = tokenizer(TEXTS, padding="max_length", max_length=tiny_flux.LENGTH, truncation=True, return_tensors="pt").input_ids
save("text2", ids=ids, last_hidden_state=t5(ids)[0])
t5.to(torch.bfloat16).save_pretrained(out / "text_encoder_2")
tokenizer.save_pretrained(out / "tokenizer_2")
whole = out / "tokenizer_2" / "tokenizer.json"
whole.write_text(json.dumps(json.loads(whole.read_text()), ensure_ascii=False))
FlowMatchEulerDiscreteScheduler(use_dynamic_shifting=True, base_shift=0.5, max_shift=1.15, shift=3.0).save_pretrained(out / "scheduler")
(out / "tokens.json").write_text(json.dumps([[text, row.tolist()] for text, row in zip(TEXTS, ids)], ensure_ascii=False))
for path in out.rglob("*"):
    path.chmod(0o755 if path.is_dir() else 0o644)
