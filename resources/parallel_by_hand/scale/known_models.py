"""Public models by name, from the `config.json` of their pages on huggingface.co."""

import json
from pathlib import Path

from parallel_by_hand.scale.training_plan import Model

_LLAMA = {"gated": True, "tied": False}
KNOWN_MODELS = {  # layers, hidden, heads, sequence, vocabulary
    "gpt3-175b": Model(96, 12288, 96, 2048, 51200),  # Brown et al. 2020, Table 2.1
    "mpt-7b": Model(32, 4096, 32, 2048, 50368),
    "mpt-30b": Model(48, 7168, 56, 8192, 50368),
    "llama2-7b": Model(32, 4096, 32, 4096, 32000, 32, 11008, **_LLAMA),
    "llama2-13b": Model(40, 5120, 40, 4096, 32000, 40, 13824, **_LLAMA),
    "codellama-34b": Model(48, 8192, 64, 16384, 32000, 8, 22016, **_LLAMA),
    "llama2-70b": Model(80, 8192, 64, 4096, 32000, 8, 28672, **_LLAMA),
    "llama3-8b": Model(32, 4096, 32, 8192, 128256, 8, 14336, **_LLAMA),
    "llama3-70b": Model(80, 8192, 64, 8192, 128256, 8, 28672, **_LLAMA),
    "llama3-405b": Model(126, 16384, 128, 8192, 128256, 8, 53248, **_LLAMA),
    "mistral-7b": Model(32, 4096, 32, 8192, 32000, 8, 14336, **_LLAMA),
    "mixtral-8x7b": Model(
        32, 4096, 32, 4096, 32000, 8, 14336, True, 8, 2, False
    ),
    "qwen2.5-32b": Model(64, 5120, 40, 8192, 152064, 8, 27648, **_LLAMA),
}  # fmt: skip


def model_from_config(path: Path) -> Model:
    """The model of a Hugging Face `config.json`, as far as the simulator knows it."""
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
        return Model(
            config["num_hidden_layers"],
            config["hidden_size"],
            config["num_attention_heads"],
            config["max_position_embeddings"],
            config["vocab_size"],
            kv_heads=config.get("num_key_value_heads", 0),
            mlp=config.get("intermediate_size", 0),
            gated=config.get("hidden_act") in ("silu", "swish"),
            experts=config.get("num_local_experts", 1),
            experts_per_token=config.get("num_experts_per_tok", 1),
            tied=config.get("tie_word_embeddings", False),
        )
    except OSError as problem:
        raise ValueError(f"{path} cannot be read: {problem.strerror}") from None
    except (ValueError, TypeError, AttributeError):
        raise ValueError(f"{path} is no JSON of a model") from None
    except KeyError as missing:
        raise ValueError(f"{path} does not say {missing.args[0]}") from None
