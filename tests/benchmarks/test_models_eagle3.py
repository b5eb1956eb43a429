"""The EAGLE-3 head: what is trained is what SGLang runs, and accept lengths are counted as a verify pass counts."""

import json
import math

import pytest

torch = pytest.importorskip("torch")
load_file = pytest.importorskip("safetensors.torch").load_file

from benchmarks.models import eagle3  # noqa: E402

SIZE = eagle3.Size(hidden=16, heads=4, kv_heads=2, head_dim=4, inner=24, vocabulary=40, draft_vocabulary=20)
CHAINS, DEPTHS = 7, 4


@pytest.fixture
def case():
    torch.manual_seed(3)
    head = eagle3.Head(SIZE)
    with torch.no_grad():
        for weight in head.parameters():
            weight.copy_(torch.randn_like(weight) * 0.3)
    features = torch.randn(1, CHAINS, 3 * SIZE.hidden)
    embedding = torch.randn(SIZE.vocabulary, SIZE.hidden)
    tokens = torch.randint(0, SIZE.vocabulary, (1, CHAINS + DEPTHS))
    return head, features, embedding, tokens


class Served:
    """The forward of `LlamaForCausalLMEagle3` (sglang 0.5.16), a token at a time with a cache, by its weights' names."""

    def __init__(self, weights):
        self.weights = {name: value.float() for name, value in weights.items() if value.is_floating_point()}
        self.keys, self.values = [], []

    def linear(self, name, value):
        return self.weights[f"{name}.weight"] @ value

    def norm(self, name, value):
        return value / math.sqrt(float(value.pow(2).mean()) + SIZE.eps) * self.weights[f"{name}.weight"]

    def turned(self, flat, place):
        found = []
        for head in flat.view(-1, SIZE.head_dim):
            half = SIZE.head_dim // 2
            for i in range(half):
                angle = place * SIZE.theta ** (-2 * i / SIZE.head_dim)
                a, b = head[i].item(), head[i + half].item()
                head[i], head[i + half] = (
                    a * math.cos(angle) - b * math.sin(angle),
                    b * math.cos(angle) + a * math.sin(angle),
                )
            found.append(head)
        return torch.stack(found)

    def token(self, embed, hidden, place):
        joined = torch.cat([self.norm("midlayer.input_layernorm", embed), self.norm("midlayer.hidden_norm", hidden)])
        query = self.turned(self.linear("midlayer.self_attn.q_proj", joined).clone(), place)
        self.keys.append(self.turned(self.linear("midlayer.self_attn.k_proj", joined).clone(), place))
        self.values.append(self.linear("midlayer.self_attn.v_proj", joined).view(-1, SIZE.head_dim))
        mixed = []
        for head in range(SIZE.heads):
            shared = head // (SIZE.heads // SIZE.kv_heads)
            scores = torch.stack([query[head] @ key[shared] for key in self.keys]) / math.sqrt(SIZE.head_dim)
            weights = scores.softmax(0)
            mixed.append(sum(w * value[shared] for w, value in zip(weights, self.values, strict=True)))
        state = hidden + self.linear("midlayer.self_attn.o_proj", torch.cat(mixed))
        inner = self.norm("midlayer.post_attention_layernorm", state)
        gate = torch.nn.functional.silu(self.linear("midlayer.mlp.gate_proj", inner))
        state = state + self.linear("midlayer.mlp.down_proj", gate * self.linear("midlayer.mlp.up_proj", inner))
        return state, self.linear("lm_head", self.norm("norm", state))


def test_training_gives_each_chain_what_serving_would_give_it(case, tmp_path):
    head, features, embedding, tokens = case
    with torch.no_grad():  # as it is saved
        for weight in head.parameters():
            weight.copy_(weight.bfloat16().float())
    kept = torch.arange(0, SIZE.vocabulary, 2)
    eagle3.save(head, kept, {"vocab_size": SIZE.vocabulary, "model_type": "llama"}, tmp_path)
    weights = load_file(str(tmp_path / "model.safetensors"))
    trained = [logits[0].detach() for logits in eagle3.unroll(head, features, embedding, tokens, DEPTHS)]
    for chain in range(CHAINS):
        served = Served(weights)
        state = logits = None
        for place in range(chain + 1):  # the pass over the text: token place + 1 beside the state behind token place
            fused = served.linear("fc", features[0, place])
            state, logits = served.token(embedding[tokens[0, place + 1]], fused, place)
        assert torch.allclose(trained[0][chain], logits, atol=1e-4)
        for depth in range(2, DEPTHS + 1):
            state, logits = served.token(embedding[tokens[0, chain + depth]], state, chain + depth - 1)
            assert torch.allclose(trained[depth - 1][chain], logits, atol=1e-4)


def test_saved_map_gives_back_the_target_s_ids_and_the_configuration_names_the_captured_layers(case, tmp_path):
    kept = torch.tensor([1, 5, 6, 39])
    eagle3.save(case[0], kept, {"vocab_size": 40, "architectures": ["LlamaForCausalLM"]}, tmp_path)
    weights = load_file(str(tmp_path / "model.safetensors"))
    # sglang 0.5.16 llama_eagle3.py: hot_token_id = d2t + arange
    assert (weights["d2t"] + torch.arange(4)).tolist() == [1, 5, 6, 39]
    assert weights["t2d"].nonzero().flatten().tolist() == [1, 5, 6, 39]
    config = json.loads((tmp_path / "config.json").read_text())
    assert config["architectures"] == ["LlamaForCausalLMEagle3"]
    assert config["eagle_config"]["eagle_aux_hidden_state_layer_ids"] == [0, 1, 3]


@pytest.mark.parametrize(
    ("right", "steps", "expected"),
    [
        ([[[1, 1, 1]] * 6], 3, 4.0),  # 4 + 4 over 6 places: two passes
        ([[[0, 1, 1]] * 6], 3, 1.0),
        ([[[1, 0, 1]] * 6], 3, 2.0),
        ([[[1, 1, 1]] * 6], 1, 2.0),
        ([[[1, 1, 0], [0, 0, 0], [0, 0, 0], [0, 0, 0]]], 3, 2.0),  # 3 from the first place, then 1
    ],
)
def test_accept_length_walks_as_a_verify_pass_does(right, steps, expected):
    assert eagle3.accept_length(torch.tensor(right, dtype=torch.bool), steps) == expected


def test_most_frequent_tokens_are_kept_in_the_order_of_their_ids():
    assert eagle3.most_frequent(torch.tensor([3, 3, 3, 1, 1, 7]), 10, 2).tolist() == [1, 3]
