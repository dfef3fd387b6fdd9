"""Builds the libraries that onnxruntime-gpu's CUDA provider is linked to, with the names that the installed one asks for.

    python tests/cuda_stub/build.py CAPI_FOLDER OUT_FOLDER

CAPI_FOLDER is onnxruntime/capi of the installed package. Needs cc and nm. With OUT_FOLDER in LD_LIBRARY_PATH the provider loads.
"""

import re
import shutil
import subprocess
import sys
from pathlib import Path

RUNTIME = Path(__file__).with_name("runtime.c")
EXTRA = {
    "libcuda.so.1": r"cu[A-Z]",
    "libcurand.so.10": r"curand[A-Z]",
    "libnvinfer.so.10": r"(create|get)Infer|getPlugin|getLogger|initLib",
    "libnvonnxparser.so.10": r"createNvOnnx",
}
"""Libraries whose names carry no version, and how these begin."""
LISTING = "listing"
"""A folder inside for what is not CUDA: with it too, onnxruntime loads the provider of TensorRT, and lists its kernels."""


def can_build() -> bool:
    return all(map(shutil.which, ("cc", "nm")))


def build(capi: Path, out: Path) -> None:
    """Write the libraries of both providers in the folder ``capi`` to ``out``."""
    out.mkdir(parents=True, exist_ok=True)
    wanted: dict[str, set[str]] = {name: set() for name in EXTRA}
    for provider in ("cuda", "tensorrt"):
        library = capi / f"libonnxruntime_providers_{provider}.so"
        listed = subprocess.run(["nm", "-D", "--undefined-only", library], capture_output=True, text=True, check=True).stdout
        for name, version in re.findall(r" U (\w+)(?:@(\S+))?$", listed, re.M):
            if version.startswith("libcu"):
                wanted.setdefault(version, set()).add(name)
            for extra, beginning in EXTRA.items():
                if not version and re.match(beginning, name):
                    wanted[extra].add(name)
    written = set(re.findall(r"^(?:int|ptr \*|const char \*)\s*(\w+)\(", RUNTIME.read_text(), re.M))
    (out / LISTING).mkdir(exist_ok=True)
    for library_name, names in wanted.items():
        folder = out / LISTING if library_name.startswith("libnv") else out
        _library(folder, library_name, sorted(names - written), library_name.startswith("libcudart"), names & written)


def _library(out: Path, name: str, empty: list[str], is_runtime: bool, shared: set[str]) -> None:
    source, versions = out / f"{name}.c", out / f"{name}.map"
    body = "".join(f"int {entry}() {{ return 0; }}\n" for entry in empty)
    # Answers outside the runtime: a handle that is not null.
    body += (
        ""
        if is_runtime
        else "".join(f"int {entry}(void **h) {{ static char c; *h = &c; return 0; }}\n" for entry in sorted(shared))
    )
    source.write_text(body or "int nothing() { return 0; }\n")
    versions.write_text(f"{name} {{ global: *; }};\n")
    flags = [] if name in EXTRA else [f"-Wl,--version-script={versions}"]
    sources = [source, RUNTIME] if is_runtime else [source]
    command = [
        "cc",
        "-std=gnu11",
        "-O1",
        "-w",
        "-shared",
        "-fPIC",
        *sources,
        "-o",
        out / name,
        f"-Wl,-soname,{name}",
        *flags,
        "-lpthread",
    ]
    subprocess.run(command, check=True)


if __name__ == "__main__":
    build(Path(sys.argv[1]), Path(sys.argv[2]))
