"""The check for machines with a GPU, as far as a CPU can run it."""

import gpu_check
import pytest
import sweep_engines

from pragworld_tasks.dialogues.generate import documents, generate
from pragworld_tasks.dialogues.settings import GeneratorSettings


def test_sweeps_agree_with_hooks_and_wrong_ones_would_not(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = list(documents(generate(GeneratorSettings(groups=1))))[:3]
    monkeypatch.setattr(sweep_engines, "VOCABULARY", 512)
    tokenizer = sweep_engines.train_tokenizer(chosen)
    model = sweep_engines.make_model(layers=2, hidden=64).eval()
    checks = gpu_check.check_sweeps(model, tokenizer, chosen)
    assert [(each["sweep"], each["dtype"]) for each in checks] == [
        (kind, dtype) for dtype in ("float32", "bfloat16") for kind in ("ablation", "patching")
    ]
    assert all(each["holds"] for each in checks)
    ablation = sweep_engines.SWEEPS["ablation"]
    sweep = ablation["sweep"]
    monkeypatch.setitem(ablation, "sweep", lambda task: sweep(task).flip(1))
    wrong = gpu_check.check_sweeps(model, tokenizer, chosen)
    assert [each["holds"] for each in wrong] == [False, True, False, True]
