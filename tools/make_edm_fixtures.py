"""Makes the test data of the EDM networks: tiny random networks of every kind, their outputs and gradients.

usage: make_edm_fixtures.py OUTDIR        (needs PyTorch; OUTDIR is crates/dyweight-models/tests/data)

One safetensors file per network: its weights, its configuration in the metadata, and inputs and results as `io.*`. The
first network is also written as a pickle of the scheme that released checkpoints use, with a placeholder for the source
text.
"""
import json, os, pickle, sys, types

import torch
from torch import nn

import edm_network, tensor_file

BASE = {"cls": "EDMPrecond", "img_resolution": 8, "img_channels": 1, "model_type": "SongUNet", "model_channels": 4,
        "channel_mult": [1, 2], "channel_mult_emb": 2, "num_blocks": 1, "attn_resolutions": [4]}
NETWORKS = {
    "edm_standard": {"label_dim": 3, "augment_dim": 2, "img_resolution": 4},
    "edm_skip": {"label_dim": 2, "encoder_type": "skip", "decoder_type": "skip", "resample_filter": [1, 3, 3, 1]},
    "edm_residual": {"encoder_type": "residual", "embedding_type": "fourier", "channel_mult_noise": 2,
                     "resample_filter": [1, 2, 3, 4]},
    "edm_vp": {"cls": "VPPrecond", "img_channels": 2, "encoder_type": "residual", "decoder_type": "skip"},
    "edm_ve": {"cls": "VEPrecond", "embedding_type": "fourier", "encoder_type": "skip", "num_blocks": 2},
    "edm_iddpm": {"cls": "iDDPMPrecond", "model_type": "DhariwalUNet", "M": 50, "label_dim": 3,
                  "channel_mult": [2, 1]},
}


def network(name, config):
    torch.manual_seed(sum(name.encode()))
    net = edm_network.build(config)
    for key, tensor in net.named_parameters():
        # Every weight matters: nothing stays at zero or one.
        scale = 0.2 if tensor.dim() == 1 else 1.5 / tensor[0].numel() ** 0.5
        nn.init.normal_(tensor, 1.0 if "norm" in key and key.endswith("weight") else 0.0, scale)
    return net


def evaluate(net, config):
    n, size, labels = 3, config["img_resolution"], config.get("label_dim", 0)
    sigma = torch.tensor([0.07, 0.9, 11.0], requires_grad=True)
    x = (torch.randn(n, config["img_channels"], size, size) * (1 + sigma.detach()[:, None, None, None])).requires_grad_()
    rows = torch.eye(labels)[torch.arange(n) % labels] if labels else None
    value = net(x, sigma, rows)
    cotangent = torch.randn_like(value)
    value.backward(cotangent)
    io = {"x": x, "sigma": sigma, "cotangent": cotangent, "denoised": value, "grad_x": x.grad, "grad_sigma": sigma.grad}
    if labels:
        io["labels"] = rows
    return {"io." + name: tensor for name, tensor in io.items()}


class Persistent:
    """Pickles like an object of the released code."""

    def __init__(self, module, config=None):
        self.class_name = {"Precond": config and config["cls"], "UNet": "SongUNet"}.get(type(module).__name__) \
            or type(module).__name__
        children = {name: layers(child) if isinstance(child, nn.ModuleDict) else Persistent(child)
                    for name, child in module._modules.items() if child is not None}
        self.state = {"training": False, "_parameters": dict(module._parameters), "_buffers": dict(module._buffers),
                      "_modules": children, "_init_args": (), "_init_kwargs": {}}
        if config:
            self.state["_init_kwargs"] = {key: value for key, value in config.items() if key != "cls"}
            self.state.update(img_resolution=config["img_resolution"], sigma_min=0.0, sigma_max=float("inf"))

    def __reduce__(self):
        meta = {"type": "class", "version": 6, "module_src": "# no source", "class_name": self.class_name,
                "state": self.state}
        return _reconstruct_persistent_obj, (meta,)


def layers(modules):
    """The lists of layers are plain objects of PyTorch."""
    copy = nn.ModuleDict()
    copy._modules = {name: Persistent(layer) for name, layer in modules._modules.items()}
    return copy


def _reconstruct_persistent_obj(meta):
    raise NotImplementedError


def write_pickle(path, net, config):
    module = types.ModuleType("torch_utils.persistence")
    module._reconstruct_persistent_obj = _reconstruct_persistent_obj
    _reconstruct_persistent_obj.__module__ = module.__name__
    sys.modules.update({"torch_utils": types.ModuleType("torch_utils"), module.__name__: module})
    with open(path, "wb") as out:
        pickle.dump({"ema": Persistent(net, config), "loss_fn": None}, out, protocol=4)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    for index, (name, options) in enumerate(NETWORKS.items()):
        config = {**BASE, **options}
        net = network(name, config)
        tensors = {**net.state_dict(), **evaluate(net, config)}
        tensor_file.save(os.path.join(sys.argv[1], name + ".safetensors"), tensors, {"config": json.dumps(config), "format": "pt"})
        if index == 0:
            write_pickle(os.path.join(sys.argv[1], name + ".pkl"), net, config)
        print(name, sum(p.numel() for p in net.parameters()), "parameters")
