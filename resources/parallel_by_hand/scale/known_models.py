"""Public models by name, from the `config.json` of their pages on huggingface.co."""

import json
from ast import literal_eval
from pathlib import Path

from parallel_by_hand.scale.training_plan import Model
from sidebyside.course.datasets import read_table

KNOWN_MODELS = {
    row.pop("name"): Model(**{field: literal_eval(v) for field, v in row.items()})
    for row in read_table("models")
}


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
