"""New probes of a model's MLP outputs, and the size of the outputs."""

import copy
import json
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.neural_network import MLPClassifier
from small_models import small_model

from pragworld_interp.decoder import from_model
from pragworld_interp.loading import Model, load_decoder
from pragworld_interp.tokenization import tokenize_prompts
from pragworld_tasks.errors import InputError
from pragworld_tasks.tiny import tiny_folder
from pragworld_train.cli import main
from pragworld_train.data import load_document_set
from pragworld_train.experiments.probing import (
    ProbedLayer,
    ProbeReport,
    fit_probe,
    probe_layers,
    read_mlp_outputs,
    read_probe_report,
)


@pytest.mark.parametrize("architecture", ["qwen3", "falcon"])
def test_outputs_in_batches_equal_those_of_single_prompts(architecture: str) -> None:
    decoder, _ = load_decoder(Model(str(tiny_folder())))
    if architecture != "qwen3":
        other = copy.deepcopy(small_model(architecture))
        other.resize_token_embeddings(len(decoder.tokenizer))
        decoder = from_model(other, decoder.tokenizer)
    documents = load_document_set("generated", '{"groups": 3}').documents
    ends, mean_squares = read_mlp_outputs(decoder, documents, chat_template=False)
    outputs: list[torch.Tensor] = []
    for block in decoder.blocks:
        block.mlp.register_forward_hook(lambda _, __, output: outputs.append(output[0].clone()))
    for number, prompt in enumerate(tokenize_prompts(decoder, documents, chat_template=False)):
        outputs.clear()
        with torch.inference_mode():
            decoder.model(input_ids=torch.tensor([prompt.ids]))
        assert len(outputs) == len(ends)
        for layer, output in enumerate(outputs):
            torch.testing.assert_close(ends[layer, number], output[-1], rtol=1e-4, atol=1e-4)
            mean_square = output.square().mean()
            torch.testing.assert_close(mean_squares[layer, number], mean_square)


def test_a_probe_learns_labels_that_are_not_linearly_separable() -> None:
    generator = torch.Generator().manual_seed(0)
    states = torch.randn(1200, 6, generator=generator) * torch.tensor([100.0, 1, 1, 1, 1, 0.01]) + 5
    labels = ((states[:, 1] > 5) ^ (states[:, 5] > 5)).long()
    probe = fit_probe(states[:800], labels[:800], 32, seed=0)
    with torch.no_grad():
        accuracy = (probe(states[800:]).argmax(-1) == labels[800:]).float().mean().item()
    scaled = ((states - states[:800].mean(0)) / states[:800].std(0)).numpy()
    other = MLPClassifier((32,), max_iter=500, random_state=0).fit(scaled[:800], labels[:800])
    assert accuracy > 0.9
    assert accuracy == pytest.approx(other.score(scaled[800:], labels[800:]), abs=0.06)


def test_a_probe_of_noise_is_at_chance() -> None:
    generator = torch.Generator().manual_seed(0)
    states = torch.randn(2000, 16, generator=generator)
    labels = torch.randint(2, (2000,), generator=generator)
    probe = fit_probe(states[:1000], labels[:1000], 32, seed=0)
    with torch.no_grad():
        right = probe(states[1000:]).argmax(-1) == labels[1000:]
    assert abs(right.float().mean().item() - 0.5) < 4 * np.sqrt(0.25 / 1000)


def test_the_command_writes_what_it_shows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "probes.json"
    main(["probe", "--model", str(tiny_folder()), "--groups", "5", "--out", str(out)])
    found = read_probe_report(out)
    decoder, _ = load_decoder(Model(str(tiny_folder())))
    training, asked = (
        load_document_set("generated", '{"groups": 5}', split).documents
        for split in ("validation", "test")
    )
    again = probe_layers(decoder, training, asked, 128, 0)
    assert found.groups == again.groups
    assert [layer.right for layer in found.layers] == [layer.right for layer in again.layers]
    table = found.to_text()
    assert table in capsys.readouterr().out
    assert f" {100 * np.mean(found.layers[-1].right):.2f} |" in table
    content = json.loads(out.read_text())
    for edited in (content["layers"][::-1], [{**content["layers"][0], "right": [True]}]):
        out.write_text(json.dumps({**content, "layers": edited}))
        with pytest.raises(InputError, match="not in their order, or lack documents; remove"):
            read_probe_report(out)


def test_small_outputs_are_shown_with_their_digits() -> None:
    groups = [*range(40)]
    layer = ProbedLayer(0, [True, False] * 20, [0.00123 + number * 1e-6 for number in groups])
    row = ProbeReport(groups, [layer]).to_text().splitlines()[-1]
    assert re.fullmatch(r"\| 0 .* 50\.00 \| .* 0\.001249 \| 0\.00124\d to 0\.00125\d \|", row)


def test_numbers_of_groups_and_features_are_at_least_one(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for option in ("groups", "probe_hidden_size"):
        with pytest.raises(SystemExit, match="2"):
            main(["probe", "--model", "no/such-model", f"--{option}", "0"])
        assert capsys.readouterr().err == f"--{option} 0: must be at least 1\n"


def test_a_report_is_not_overwritten_and_is_tried_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine.json").write_text("mine")
    for name, message in (
        ("mine.json", "mine.json exists; pass --overwrite, or another name"),
        ("missing/probes.json", "probes.json: No such file or directory; choose a file"),
    ):
        with pytest.raises(SystemExit, match="2"):
            main(["probe", "--model", "no/such-model", "--out", str(tmp_path / name)])
        assert message in capsys.readouterr().err
    assert (tmp_path / "mine.json").read_text() == "mine"
