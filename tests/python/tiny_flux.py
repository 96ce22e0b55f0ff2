"""A FLUX pipeline of a few thousand random weights, written to a folder as diffusers writes it.

usage: tiny_flux.py DIR
"""

import json
import pathlib
import sys

import torch
from diffusers import AutoencoderKL, FlowMatchEulerDiscreteScheduler, FluxPipeline, FluxTransformer2DModel
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
from transformers import CLIPTextConfig, CLIPTextModel, CLIPTokenizer, PreTrainedTokenizerFast, T5Config, T5EncoderModel

import tiny_pipeline

PIECES = ["▁", "▁a", "a", "▁photo", "▁of", "▁the", "▁cat", "▁dog", "s", "▁c", "at", "t", "o", "h", "e", "▁in", "2", "!", "'", ",", "é"]
LENGTH = 24


def t5_tokenizer(**options):
    """A unigram tokenizer with the steps of T5's."""
    vocabulary = [("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0)] + [(p, -2.0 - 0.37 * i) for i, p in enumerate(PIECES)]
    tokenizer = Tokenizer(models.Unigram(vocabulary, unk_id=2, byte_fallback=False))
    steps = options.get("normalizers", [normalizers.NFKC(), normalizers.Strip(left=False, right=True),
                                        normalizers.Replace(__import__("tokenizers").Regex(" {2,}"), "▁")])
    tokenizer.normalizer = normalizers.Sequence(steps)
    tokenizer.pre_tokenizer = options.get("pre_tokenizer", pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="always"))
    tokenizer.decoder = decoders.Metaspace(replacement="▁", prepend_scheme="always")
    tokenizer.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="<pad>", eos_token="</s>", unk_token="<unk>",
                                   model_max_length=LENGTH)


def build(folder, guidance=True, heads=2, head=16, axes=(4, 6, 6)):
    """Writes the pipeline and returns it."""
    folder = pathlib.Path(folder)
    vocabulary = tiny_pipeline.write_tokenizer(folder / "tokenizer")
    torch.manual_seed(3)
    transformer = FluxTransformer2DModel(
        in_channels=16, num_layers=2, num_single_layers=2, attention_head_dim=head, num_attention_heads=heads,
        joint_attention_dim=32, pooled_projection_dim=16, guidance_embeds=guidance, axes_dims_rope=axes)
    vae = AutoencoderKL(
        in_channels=3, out_channels=3, latent_channels=4, block_out_channels=(8, 16), norm_num_groups=4, layers_per_block=1,
        down_block_types=("DownEncoderBlock2D",) * 2, up_block_types=("UpDecoderBlock2D",) * 2, sample_size=16,
        scaling_factor=0.3611, shift_factor=0.1159, use_quant_conv=False, use_post_quant_conv=False)
    clip = CLIPTextModel(CLIPTextConfig(
        vocab_size=vocabulary, hidden_size=16, intermediate_size=32, num_hidden_layers=2, num_attention_heads=2,
        bos_token_id=vocabulary - 2, eos_token_id=vocabulary - 1, pad_token_id=vocabulary - 1))
    t5 = T5EncoderModel(T5Config(
        vocab_size=64, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4, feed_forward_proj="gated-gelu", is_encoder_decoder=False,
        use_cache=False))
    # Fresh normalisations are ones and zeros, which would hide an exchange of their weights; fresh biases of T5 are small.
    for network in (transformer.eval(), vae.eval(), clip.eval(), t5.eval()):
        for parameter in network.parameters():
            if parameter.dim() == 1:
                parameter.data += 0.1 * torch.randn_like(parameter)
    dynamic = {"use_dynamic_shifting": True, "base_shift": 0.5, "max_shift": 1.15, "shift": 3.0}
    scheduler = FlowMatchEulerDiscreteScheduler(num_train_timesteps=1000, **(dynamic if guidance else {"shift": 1.0}))
    pipeline = FluxPipeline(
        scheduler=scheduler, vae=vae, text_encoder=clip, tokenizer=CLIPTokenizer.from_pretrained(folder / "tokenizer"),
        text_encoder_2=t5, tokenizer_2=t5_tokenizer(), transformer=transformer)
    pipeline.set_progress_bar_config(disable=True)
    kept = {name: (folder / "tokenizer" / name).read_text() for name in ("vocab.json", "merges.txt", "tokenizer_config.json")}
    pipeline.save_pretrained(folder, max_shard_size="60KB")
    # Tokenizers are written back in whatever way their version prefers: released folders have these files.
    for name, content in kept.items():
        (folder / "tokenizer" / name).write_text(content)
    return pipeline


if __name__ == "__main__":
    build(sys.argv[1])
    print(json.dumps(sorted(str(p.relative_to(sys.argv[1])) for p in pathlib.Path(sys.argv[1]).rglob("*") if p.is_file())))
