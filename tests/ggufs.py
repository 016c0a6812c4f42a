"""Writes small GGUF files."""

from __future__ import annotations

import numpy as np

D, FF, HEADS, THETA = 32, 64, 4, 500_000.0
CHAT = "{% for m in messages %}<|start|>{{ m.content }}{% endfor %}"
SHAPES = {
    "output_norm.weight": (D,),
    "blk.0.attn_norm.weight": (D,),
    "blk.0.ffn_norm.weight": (D,),
    "blk.0.attn_q.weight": (D, D),
    "blk.0.attn_k.weight": (D // 2, D),
    "blk.0.attn_v.weight": (D // 2, D),
    "blk.0.attn_output.weight": (D, D),
    "blk.0.ffn_gate.weight": (FF, D),
    "blk.0.ffn_up.weight": (FF, D),
    "blk.0.ffn_down.weight": (D, FF),
}


def write_gguf(
    path, *, arch="llama", settings=(), factors=None, without="", template=CHAT, begins=None, q8=False, context=512
):
    """Write a one-layer model of random weights, as llama.cpp's converter does."""
    import gguf
    from transformers.convert_slow_tokenizer import bytes_to_unicode

    words = ["<|start|>", "<|end|>", *bytes_to_unicode().values(), "th"]
    writer = gguf.GGUFWriter(path, arch)
    writer.add_context_length(context)
    writer.add_embedding_length(D)
    writer.add_block_count(1)
    writer.add_feed_forward_length(FF)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS // 2)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(THETA)
    writer.add_rope_dimension_count(D // HEADS)
    writer.add_vocab_size(len(words))
    writer.add_name("tiny")
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("default")
    writer.add_token_list(words)
    writer.add_token_types([3, 3] + [1] * 257)
    writer.add_token_merges(["t h", "t h"])  # of one alone transformers 5.17 reads the letters
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(1)
    if begins is not None:
        writer.add_add_bos_token(begins)
    if template is not None:
        writer.add_chat_template(template)
    for name, value in settings:
        writer.add_string(name, value) if isinstance(value, str) else writer.add_float32(name, value)
    rng = np.random.default_rng(7)
    table = (len(words), D)
    for name, shape in {"token_embd.weight": table, "output.weight": table, **SHAPES}.items():
        weights = rng.normal(size=shape).astype(np.float32)
        if name == without:
            continue
        if q8 and weights.ndim == 2:
            kind = gguf.GGMLQuantizationType.Q8_0
            writer.add_tensor(name, gguf.quantize(weights, kind), raw_dtype=kind)
        else:
            writer.add_tensor(name, weights)
    if factors is not None:
        writer.add_tensor("rope_freqs.weight", np.array(factors, dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path
