#!/usr/bin/env bash
# Makes build/venv with what tools/requirements.txt names, for the tests against real clients. Those
# tests skip visibly without it, so that a machine which cannot reach PyPI only loses them.
# Silent and instant when the folder is up to date.
set -euo pipefail
cd "$(dirname "$0")/.."
stamp=build/venv/requirements.txt

cmp -s tools/requirements.txt "$stamp" && exit 0
rm -rf build/venv
mkdir -p build
/usr/bin/python3 -m venv build/venv
if ! build/venv/bin/pip install --quiet --disable-pip-version-check --retries 1 --timeout 20 \
  -r tools/requirements.txt; then
  rm -rf build/venv
  echo "venv: PyPI cannot be reached or lacks a package: the tests with the openai and anthropic clients and with moto will SKIP"
  exit 0
fi
cp tools/requirements.txt "$stamp"
