"""``python -m onnxgrad``: the command line."""

from onnxgrad.cli.main import main

if __name__ == "__main__":
    raise SystemExit(main())
