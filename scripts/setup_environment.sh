# Sourced by the other scripts: makes .venv with the extras named in $EXTRAS and puts it on PATH. "dev" holds all of "test".
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

find_python() {
    local candidate
    for candidate in ${PYTHON:-} python3 python3.14 python3.13 python3.12 python3.11 python; do
        if command -v "$candidate" >/dev/null 2>&1 && "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            echo "$candidate"
            return
        fi
    done
    echo "Python 3.11 or newer is needed. Install it, or set PYTHON to one." >&2
    return 1
}

stamp=".venv/installed-${EXTRAS}"
if [ "$EXTRAS" = test ] && [ -e .venv/installed-dev ]; then stamp=.venv/installed-dev; fi
if [ ! -e "$stamp" ] || [ pyproject.toml -nt "$stamp" ]; then
    echo "Setting up .venv (onnxgrad[${EXTRAS}]) ..."
    [ -x .venv/bin/python ] || "$(find_python)" -m venv .venv
    .venv/bin/python -m pip install --disable-pip-version-check --editable ".[${EXTRAS}]" | (grep --line-buffered -o "Downloading [^ ]*" || true)
    touch "$stamp"
fi
export PATH="$PWD/.venv/bin:$PATH"
