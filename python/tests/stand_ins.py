"""What diffusers' tests take from a hub, made here: tokenisers of letters and tiny random encoders."""

import functools
import importlib
import re
import sys
import tempfile
from pathlib import Path

import tiny
import torch

SKIPPED = ("onnx", "common", "flax", "shap_e", "unclip", "test_pipelines", "combined", "amused", "llada", "gemma/", "ip_adapter")


def fixtures(checkout):
    """`folder/test_file::Class` of every test class that makes tiny components."""
    root = checkout / "tests" / "pipelines"
    found = []
    for path in sorted(root.glob("*/test_*.py")):
        name = path.relative_to(root).as_posix()
        if any(part in name for part in SKIPPED):
            continue
        text = path.read_text(encoding="utf-8")
        for block in re.split(r"^(?=class )", text, flags=re.M)[1:]:
            kind = re.match(r"class (\w+)", block).group(1)
            if "def get_dummy_components" in block and "pipeline_class = " in block:
                found.append(f"{name[:-3]}::{kind}")
    return _first_of_each_pipeline(root, found)


def _first_of_each_pipeline(root, names):
    """Several test classes make the same pipeline; PAG's and ControlNet's multiples are left to the single ones."""
    seen, kept = set(), []
    for name in names:
        place, kind = name.split("::")
        text = (root / f"{place}.py").read_text(encoding="utf-8")
        key = re.search(rf"class {kind}\b.*?pipeline_class = (\w+)", text, re.S).group(1)
        if key not in seen and "Multi" not in kind:
            seen.add(key)
            kept.append(name)
    return kept


def from_fixture(checkout, name):
    """A pipeline of diffusers' own tests, and what it is called with."""
    sys.path.insert(0, str(checkout))
    place, kind = name.split("::")
    with _offline():
        module = importlib.import_module("tests.pipelines." + place.replace("/", "."))
        case = getattr(module, kind)
        case = case() if not hasattr(case, "runTest") and "unittest" not in str(case.__mro__) else case("__init__")
        torch.manual_seed(0)
        components = case.get_dummy_components()
        inputs = case.get_dummy_inputs("cpu") if "device" in _names(case.get_dummy_inputs) else case.get_dummy_inputs()
        pipe = case.pipeline_class(**components)
    tiny.quiet(pipe)
    left_out = ("generator", "num_inference_steps", "output_type", "return_dict", "latents")
    return pipe, {k: v for k, v in inputs.items() if k not in left_out}


def _names(function):
    import inspect

    return inspect.signature(function).parameters


class _offline:
    """While this lasts, `from_pretrained` of tokenisers and encoders makes them."""

    def __enter__(self):
        import transformers

        self.kept = []
        for owner in {getattr(transformers, name) for name in _MADE_BY_NAME if hasattr(transformers, name)}:
            self.kept.append((owner, owner.__dict__.get("from_pretrained")))
            owner.from_pretrained = functools.partial(_stand_in, owner.__name__)

    def __exit__(self, *_):
        for owner, kept in self.kept:
            if kept is None:
                del owner.from_pretrained
            else:
                owner.from_pretrained = kept


def _stand_in(kind, name="", *_, **named):
    return _MADE_BY_NAME[kind](name)


def _folder():
    return Path(tempfile.mkdtemp())


def _bert(name):
    from transformers import BertConfig, BertModel

    return BertModel(BertConfig(vocab_size=64, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=37))


def _t5_config(name=""):
    from transformers import T5Config

    return T5Config(
        vocab_size=64, d_model=32, d_kv=8, d_ff=37, num_layers=2, num_heads=4, feed_forward_proj="gated-gelu",
        relative_attention_num_buckets=8, pad_token_id=0, eos_token_id=1, decoder_start_token_id=0,
    )  # fmt: skip


def _t5(name):
    from transformers import T5EncoderModel

    return T5EncoderModel(_t5_config())


def _umt5(name):
    from transformers import UMT5Config, UMT5EncoderModel

    return UMT5EncoderModel(UMT5Config(vocab_size=64, d_model=32, d_kv=8, d_ff=37, num_layers=2, num_heads=4))


#: Where Qwen's models look for these words; other networks have fewer words, and get them behind the letters.
_QWEN = {
    "<|im_start|>": 151644, "<|im_end|>": 151645, "<|vision_start|>": 151652, "<|vision_end|>": 151653,
    "<|vision_pad|>": 151654, "<|image_pad|>": 151655, "<|video_pad|>": 151656,
}  # fmt: skip
_CHAT = """{% for m in messages %}{% if m['content'] is string %}{{ m['content'] }}{% else %}{% for c in m['content'] %}\
{% if c['type'] == 'text' %}{{ c['text'] }}{% else %}<|vision_start|><|image_pad|><|vision_end|>{% endif %}{% endfor %}\
{% endif %}{% endfor %}"""


def letters(name=""):
    """A fast tokeniser of letters with the special tokens of several families."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    words = ["<pad>", "</s>", "<unk>", "<bos>", *_QWEN, *tiny.LETTERS, " ", "\n", ".", ",", *"ABCDEFGHIJKLMNOPQ"]
    if "Qwen" in str(name):  # room for every letter: Kandinsky 5 shortens its text by the length of decoded tokens
        words = [w for w in words if w not in _QWEN]
        words += [chr(code) for code in range(32, 127) if chr(code) not in words]
    places = {word: i for i, word in enumerate(words)} | (_QWEN if "Qwen" in str(name) else {})
    tokenizer = Tokenizer(models.WordLevel(places, unk_token="<unk>"))
    tokenizer.decoder = decoders.Fuse()
    tokenizer.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    made = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="<pad>", eos_token="</s>", unk_token="<unk>", bos_token="<bos>",
        additional_special_tokens=list(_QWEN), model_max_length=512, clean_up_tokenization_spaces=False,
    )  # fmt: skip
    made.chat_template = _CHAT
    return made


def _processor(name=""):
    """Letters, and pictures in patches, as Qwen's networks take them."""
    import transformers

    if "Qwen" not in str(name):
        return letters(name)
    return transformers.Qwen2VLProcessor(
        image_processor=transformers.Qwen2VLImageProcessor(), tokenizer=letters(name),
        video_processor=transformers.Qwen2VLVideoProcessor(), chat_template=_CHAT,
    )  # fmt: skip


def _gemma(name):
    from transformers import Gemma3Config, Gemma3ForConditionalGeneration

    words = {"hidden_size": 32, "intermediate_size": 37, "num_hidden_layers": 2, "num_attention_heads": 2, "head_dim": 16}
    sight = {"hidden_size": 32, "intermediate_size": 37, "num_hidden_layers": 1, "num_attention_heads": 2, "image_size": 28}
    more = {"num_key_value_heads": 2, "vocab_size": 64, "sliding_window": 32}
    return Gemma3ForConditionalGeneration(Gemma3Config(text_config={**words, **more}, vision_config={**sight, "patch_size": 14}))


def _llama(name):
    from transformers import LlamaConfig, LlamaForCausalLM

    sizes = {"hidden_size": 16, "intermediate_size": 37, "num_hidden_layers": 2, "num_attention_heads": 4}
    return LlamaForCausalLM(LlamaConfig(vocab_size=64, num_key_value_heads=4, **sizes))


def _hearing(name):
    from transformers import ClapFeatureExtractor

    return ClapFeatureExtractor()


_MADE_BY_NAME = {
    "CLIPTokenizer": lambda name: _clip_tokenizer(), "CLIPTokenizerFast": lambda name: _clip_tokenizer(),
    "AutoTokenizer": letters, "T5TokenizerFast": letters, "T5Tokenizer": letters, "GemmaTokenizer": letters,
    "GemmaTokenizerFast": letters, "Qwen2Tokenizer": letters, "Qwen2TokenizerFast": letters, "LlamaTokenizer": letters,
    "LlamaTokenizerFast": letters, "RobertaTokenizer": letters, "BertTokenizer": letters,
    "XLMRobertaTokenizer": letters, "XLMRobertaTokenizerFast": letters,
    "AutoProcessor": _processor, "Qwen2VLProcessor": _processor, "Qwen2_5_VLProcessor": _processor, "Qwen3VLProcessor": _processor,
    "ClapFeatureExtractor": _hearing, "Gemma3ForConditionalGeneration": _gemma, "LlamaForCausalLM": _llama,
    "AutoConfig": _t5_config, "T5EncoderModel": _t5, "UMT5EncoderModel": _umt5, "BertModel": _bert,
}  # fmt: skip


def _clip_tokenizer():
    made = tiny.clip_tokenizer(_folder())
    made.model_max_length = 77
    return made
