"""Writes tiny models with random weights, pictures and prompts, and what the published tools make of them.

    python tools/make_textmetric_fixtures.py crates/dyweight-models/tests/data/prompted

clip/           transformers' CLIPModel; pictures resized by PIL and by torchvision, scores 100 cos
open_clip/      the same weights as OpenCLIP names them
image_reward/   ImageReward, from its description, in plain torch operations
expected.json   scores of picture i with prompt i

Needs torch, torchvision, transformers, safetensors and Pillow.
"""

import json
import math
import pathlib
import sys

import numpy as np
import torch
from PIL import Image
from safetensors.torch import save_file
from torch.nn import functional as F
from torchvision.transforms import functional as TF
from torchvision.transforms.v2 import functional as TF2
from transformers import CLIPConfig, CLIPModel

out = pathlib.Path(sys.argv[1])
for name in ("clip", "open_clip", "image_reward", "images"):
    (out / name).mkdir(parents=True, exist_ok=True)
torch.manual_seed(3)
SIZE = 12
MEAN, STD = torch.tensor([0.48145466, 0.4578275, 0.40821073]), torch.tensor([0.26862954, 0.26130258, 0.27577711])
PROMPTS = ["a cat", "The CAT's hat, at 2!", "cat " * 50 + "hat", "héllo \u201ccat\u201d &amp; hat"]
PIECES = "[PAD] [UNK] [CLS] [SEP] [MASK] a the cat ##s hat at 2 ! , ' s hello \" & amp ;".split(" ")

# Pictures: smooth, of odd shapes, one grey.
SHAPES = [(16, 20), (30, 12), (12, 12), (5, 8)]
for i, (h, w) in enumerate(SHAPES):
    y, x = np.mgrid[0:h, 0:w]
    waves = [np.sin(x * (0.3 + 0.1 * c + 0.05 * i)) * np.cos(y * (0.2 + 0.07 * c)) for c in range(3)]
    noise = np.random.default_rng(i).normal(0, 30, (h, w, 3))
    pixels = np.clip(127 + 110 * np.stack(waves, -1) + noise, 0, 255).astype(np.uint8)
    picture = Image.fromarray(pixels[..., 0] if i == 2 else pixels)
    picture.save(out / "images" / f"{i:03}.png")
pictures = [Image.open(out / "images" / f"{i:03}.png").convert("RGB") for i in range(len(SHAPES))]


def resized(w, h):
    short, long = min(w, h), max(w, h)
    longer = int(SIZE * long / short)
    return (SIZE, longer) if w <= h else (longer, SIZE)


def seen(picture, kind, crop):
    w, h = resized(*picture.size)
    offset = (lambda e: e // 2) if crop == "floor" else (lambda e: round(e / 2))
    if kind == "pil":
        x = torch.from_numpy(np.asarray(picture.resize((w, h), Image.BICUBIC)).copy()).permute(2, 0, 1).float() / 255
    else:
        x = torch.from_numpy(np.asarray(picture).copy()).permute(2, 0, 1)
        if kind == "tv":
            x = TF2.resize(x, [h, w], TF.InterpolationMode.BICUBIC, antialias=True).float() / 255
        else:
            x = TF.resize(x.float() / 255, [h, w], TF.InterpolationMode.BICUBIC, antialias=kind != "float-noaa")
    top, left = offset(h - SIZE), offset(w - SIZE)
    x = x[:, top : top + SIZE, left : left + SIZE]
    return (x - MEAN[:, None, None]) / STD[:, None, None]


# CLIP with a vocabulary of bytes and a few merges, as the tokenizer has it.
merges = ["c a", "ca t</w>", "h a", "ha t</w>", "a t</w>", "t h", "th e</w>"]
own = [*range(33, 127), *range(161, 173), *range(174, 256)]
signs = [chr(b) for b in own] + [chr(256 + i) for i in range(256 - len(own))]
vocabulary = signs + [s + "</w>" for s in signs] + [m.replace(" ", "") for m in merges] + ["<|startoftext|>", "<|endoftext|>"]
(out / "clip" / "vocab.json").write_text(json.dumps({t: i for i, t in enumerate(vocabulary)}, ensure_ascii=False))
(out / "clip" / "merges.txt").write_text("#version: 0.2\n" + "\n".join(merges) + "\n")
end = len(vocabulary) - 1
common = {"num_hidden_layers": 2, "hidden_act": "gelu", "projection_dim": 10}
config = CLIPConfig(
    text_config={**common, "hidden_size": 12, "intermediate_size": 20, "num_attention_heads": 3, "vocab_size": len(vocabulary),
                 "max_position_embeddings": 24, "eos_token_id": end, "bos_token_id": end - 1, "pad_token_id": end},
    vision_config={**common, "hidden_size": 16, "intermediate_size": 24, "num_attention_heads": 2, "image_size": SIZE, "patch_size": 4},
    projection_dim=10)
clip = CLIPModel(config).eval()
with torch.no_grad():
    for name, p in clip.named_parameters():
        p.copy_(torch.randn_like(p) * (0.3 if p.ndim > 1 else 0.1) + (1.0 if "norm" in name and name.endswith("weight") else 0.0))
weights = {k: v.contiguous() for k, v in clip.state_dict().items() if not k.endswith("position_ids")}
save_file(weights, out / "clip" / "model.safetensors")
(out / "clip" / "config.json").write_text(json.dumps({
    "model_type": "clip", "projection_dim": 10,
    "text_config": {k: getattr(config.text_config, k) for k in ("hidden_size", "intermediate_size", "num_attention_heads", "num_hidden_layers",
                    "hidden_act", "vocab_size", "max_position_embeddings", "eos_token_id")},
    "vision_config": {k: getattr(config.vision_config, k) for k in ("hidden_size", "intermediate_size", "num_attention_heads", "num_hidden_layers",
                      "hidden_act", "image_size", "patch_size")}}, indent=1))

# The same in OpenCLIP's names.
theirs = {}
for tower, prefix in (("vision_model", "visual."), ("text_model", "")):
    for i in range(2):
        a, b = f"{tower}.encoder.layers.{i}.", f"{prefix}transformer.resblocks.{i}."
        for leaf in ("weight", "bias"):
            theirs[f"{b}attn.in_proj_{leaf}"] = torch.cat([weights[f"{a}self_attn.{p}_proj.{leaf}"] for p in "qkv"])
            for x, y in (("self_attn.out_proj", "attn.out_proj"), ("layer_norm1", "ln_1"), ("layer_norm2", "ln_2"), ("mlp.fc1", "mlp.c_fc"),
                         ("mlp.fc2", "mlp.c_proj")):
                theirs[f"{b}{y}.{leaf}"] = weights[f"{a}{x}.{leaf}"]
for x, y in (("vision_model.pre_layrnorm", "visual.ln_pre"), ("vision_model.post_layernorm", "visual.ln_post"),
             ("text_model.final_layer_norm", "ln_final")):
    for leaf in ("weight", "bias"):
        theirs[f"{y}.{leaf}"] = weights[f"{x}.{leaf}"]
for x, y in (("vision_model.embeddings.class_embedding", "visual.class_embedding"), ("vision_model.embeddings.patch_embedding.weight", "visual.conv1.weight"),
             ("vision_model.embeddings.position_embedding.weight", "visual.positional_embedding"), ("logit_scale", "logit_scale"),
             ("text_model.embeddings.token_embedding.weight", "token_embedding.weight"), ("text_model.embeddings.position_embedding.weight", "positional_embedding")):
    theirs[y] = weights[x]
theirs["visual.proj"], theirs["text_projection"] = weights["visual_projection.weight"].T, weights["text_projection.weight"].T
torch.save({"epoch": 1, "state_dict": {f"module.{k}": v.contiguous() for k, v in theirs.items()}}, out / "open_clip" / "epoch_1.pt")
(out / "open_clip" / "open_clip_config.json").write_text(json.dumps({"model_cfg": {
    "embed_dim": 10, "vision_cfg": {"image_size": SIZE, "layers": 2, "width": 16, "head_width": 8, "patch_size": 4, "mlp_ratio": 1.5},
    "text_cfg": {"context_length": 24, "vocab_size": len(vocabulary), "width": 12, "heads": 3, "layers": 2}}}, indent=1))


def byte_pairs(words):
    """Start, byte pairs of each word, end; cut to 24."""
    ids, ranks = [], {tuple(m.split(" ")): i for i, m in enumerate(merges)}
    for word in words:
        symbols = [signs[own.index(b)] if b in own else signs[len(own) + sorted(set(range(256)) - set(own)).index(b)] for b in word.encode()]
        symbols[-1] += "</w>"
        while pairs := [(ranks[p], i) for i, p in enumerate(zip(symbols, symbols[1:])) if p in ranks]:
            i = min(pairs)[1]
            symbols[i : i + 2] = [symbols[i] + symbols[i + 1]]
        ids += [vocabulary.index(s) for s in symbols]
    return torch.tensor([[end - 1] + ids[:22] + [end]])


WORDS = [["a", "cat"], ["the", "cat", "'s", "hat", ",", "at", "2", "!"], ["cat"] * 50 + ["hat"]]
HF = WORDS + [["héllo", "\u201c", "cat", "\u201d", "&", "amp", ";", "hat"]]
OPEN = WORDS + [["héllo", '"', "cat", '"', "&", "hat"]]


def cosines(kind, crop, texts, scale):
    values = []
    for picture, words in zip(pictures, texts):
        with torch.no_grad():
            a = clip.visual_projection(clip.vision_model(pixel_values=seen(picture, kind, crop)[None]).pooler_output)
            b = clip.text_projection(clip.text_model(input_ids=byte_pairs(words)).pooler_output)
        values.append(scale * F.cosine_similarity(a.double(), b.double()).item())
    return values


expected = {
    "prompts": PROMPTS,
    "clip_pil": cosines("pil", "floor", HF, 100),
    "clip_tv": cosines("tv", "floor", HF, 100),
    "open_clip_pil": cosines("pil", "even", OPEN, 100),
    "hps_float": cosines("float", "even", OPEN, 1),
    "hps_float-noaa": cosines("float-noaa", "even", OPEN, 1),
}

# ImageReward.
W, D, V, T, HEADS = 16, 12, 2, 2, [8, 6, 5, 4, 1]
state = {}


def new(name, *shape):
    norm = name.lower().endswith(("norm.weight", "norm1.weight", "norm2.weight"))
    state[name] = torch.randn(*shape) * (0.3 if len(shape) > 1 else 0.1) + (1.0 if norm else 0.0)


def linear(name, i, o):
    new(f"{name}.weight", o, i)
    new(f"{name}.bias", o)


def norm(name, n):
    new(f"{name}.weight", n)
    new(f"{name}.bias", n)


eye, text = "blip.visual_encoder.", "blip.text_encoder."
new(eye + "cls_token", 1, 1, W)
new(eye + "pos_embed", 1, 10, W)
new(eye + "patch_embed.proj.weight", W, 3, 4, 4)
new(eye + "patch_embed.proj.bias", W)
for i in range(V):
    b = f"{eye}blocks.{i}."
    norm(b + "norm1", W), linear(b + "attn.qkv", W, 3 * W), linear(b + "attn.proj", W, W)
    norm(b + "norm2", W), linear(b + "mlp.fc1", W, 24), linear(b + "mlp.fc2", 24, W)
norm(eye + "norm", W)
new(text + "embeddings.word_embeddings.weight", len(PIECES) + 2, D)
new(text + "embeddings.position_embeddings.weight", 40, D)
norm(text + "embeddings.LayerNorm", D)
for i in range(T):
    b = f"{text}encoder.layer.{i}."
    for kind, width in (("attention", D), ("crossattention", W)):
        linear(b + kind + ".self.query", D, D), linear(b + kind + ".self.key", width, D), linear(b + kind + ".self.value", width, D)
        linear(b + kind + ".output.dense", D, D), norm(b + kind + ".output.LayerNorm", D)
    linear(b + "intermediate.dense", D, 20), linear(b + "output.dense", 20, D), norm(b + "output.LayerNorm", D)
inputs = D
for number, o in zip((0, 2, 4, 6, 7), HEADS):
    linear(f"mlp.layers.{number}", inputs, o)
    inputs = o
new("blip.vision_proj.weight", 4, W)
torch.save(dict(state), out / "image_reward" / "ImageReward.pt")
(out / "image_reward" / "med_config.json").write_text(json.dumps({
    "hidden_size": D, "num_hidden_layers": T, "num_attention_heads": 3, "intermediate_size": 20, "hidden_act": "gelu",
    "layer_norm_eps": 1e-12, "vocab_size": len(PIECES) + 2, "encoder_width": 768}, indent=1))
(out / "image_reward" / "vit_config.json").write_text(json.dumps({"vit_heads": 4}))
(out / "image_reward" / "vocab.txt").write_text("\n".join(PIECES) + "\n")
s = {k: v.double() for k, v in state.items()}


def lin(x, name):
    return F.linear(x, s[name + ".weight"], s[name + ".bias"])


def ln(x, name, eps):
    return F.layer_norm(x, x.shape[-1:], s[name + ".weight"], s[name + ".bias"], eps)


def attend(q, k, v, heads):
    q, k, v = (t.unflatten(-1, (heads, -1)).transpose(0, 1) for t in (q, k, v))
    p = (q @ k.transpose(1, 2) / math.sqrt(q.shape[-1])).softmax(-1)
    return (p @ v).transpose(0, 1).flatten(1)


def reward(pixels, ids):
    x = F.conv2d(pixels[None].double(), s[eye + "patch_embed.proj.weight"], s[eye + "patch_embed.proj.bias"], 4)[0].flatten(1).T
    x = torch.cat([s[eye + "cls_token"][0], x]) + s[eye + "pos_embed"][0]
    for i in range(V):
        b = f"{eye}blocks.{i}."
        q, k, v = lin(ln(x, b + "norm1", 1e-6), b + "attn.qkv").chunk(3, -1)
        x = x + lin(attend(q, k, v, 4), b + "attn.proj")
        x = x + lin(F.gelu(lin(ln(x, b + "norm2", 1e-6), b + "mlp.fc1")), b + "mlp.fc2")
    y = ln(x, eye + "norm", 1e-6)
    e = text + "embeddings."
    x = ln(s[e + "word_embeddings.weight"][ids] + s[e + "position_embeddings.weight"][: len(ids)], e + "LayerNorm", 1e-12)
    for i in range(T):
        b = f"{text}encoder.layer.{i}."
        for kind in ("attention", "crossattention"):
            c = x if kind == "attention" else y
            a = attend(*(lin(t, f"{b}{kind}.self.{n}") for t, n in ((x, "query"), (c, "key"), (c, "value"))), 3)
            x = ln(lin(a, f"{b}{kind}.output.dense") + x, f"{b}{kind}.output.LayerNorm", 1e-12)
        x = ln(lin(F.gelu(lin(x, b + "intermediate.dense")), b + "output.dense") + x, b + "output.LayerNorm", 1e-12)
    z = x[0]
    for number in (0, 2, 4, 6, 7):
        z = lin(z, f"mlp.layers.{number}")
    return (z.item() - 0.16717362830052426) / 1.0333394966054072


TOKENS = [["a", "cat"], ["the", "cat", "'", "s", "hat", ",", "at", "2", "!"], ["cat"] * 33,
          ["hello", "[UNK]", "cat", "[UNK]", "&", "amp", ";", "hat"]]
ids = [[2] + [PIECES.index(t) for t in tokens] + [3] for tokens in TOKENS]
expected["image_reward_pil"] = [reward(seen(p, "pil", "even"), i) for p, i in zip(pictures, ids)]
(out / "expected.json").write_text(json.dumps(expected, indent=1, ensure_ascii=False) + "\n")
