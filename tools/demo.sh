#!/usr/bin/env bash
# Builds Aril, serves its small model with eight adapters of random weights, asks each of them
# something at once, shows the answers, and stays up until Ctrl-C. `make demo` runs this.
#
#   PORT=8000     where to listen
#   DEMO_ONCE=1   end after the table, for scripts
set -euo pipefail
cd "$(dirname "$0")/.."
port=${PORT:-8000}
url=http://127.0.0.1:$port
log=build/demo/serve.log
answers=build/demo/answers
prompt="Anna bought a lamp at the market."
server=

fail() {
  echo "demo: $1" >&2
  exit 1
}

finish() {
  if [[ $server ]]; then
    kill "$server" 2>/dev/null || true
    wait "$server" 2>/dev/null || true
  fi
}
trap finish EXIT
trap 'echo; exit 0' INT TERM

port_is_free() { ! (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; }

wait_until_ready() {
  local deadline=$((SECONDS + 60))
  until curl -fsS -o /dev/null "$url/ready" 2>/dev/null; do
    kill -0 "$server" 2>/dev/null || { cat "$log" >&2; fail "the server ended; its log is above."; }
    ((SECONDS < deadline)) || { tail -n 20 "$log" >&2; fail "not ready after 60 s; see $log."; }
    sleep 0.1
  done
}

# ask NAME: one completion, into $answers/NAME.
ask() {
  curl -sS "$url/v1/completions" -H 'Content-Type: application/json' \
    -d "{\"model\":\"$1\",\"prompt\":\"$prompt\",\"max_tokens\":24,\"temperature\":0}" \
    >"$answers/$1" || true
}

names() { python3 -c 'import json,sys; print("\n".join(m["id"] for m in json.load(sys.stdin)["data"]))'; }

show_table() {
  python3 - "$answers" build/demo/adapters <<'PYTHON'
import json, pathlib, sys
answers, adapters = map(pathlib.Path, sys.argv[1:])
failed = False
print(f"{'model':<20} {'rank':>4}  answer")
for path in sorted(answers.iterdir()):
    config = adapters / path.name / "adapter_config.json"
    rank = json.loads(config.read_text())["r"] if config.exists() else "-"
    try:
        text = json.loads(path.read_text())["choices"][0]["text"]
    except (ValueError, KeyError, IndexError):
        text, failed = "FAILED: " + path.read_text(), True
    print(f"{path.name:<20} {rank:>4}  {' '.join(text.split())[:100]}")
sys.exit(failed)
PYTHON
}

[[ $port =~ ^[0-9]+$ ]] || fail "PORT=$port is no port number."
port_is_free || fail "port $port is in use. Stop what listens there, or run: PORT=$((port + 1)) make demo"
echo "Building (a few minutes the first time) …"
make --no-print-directory build
tools/demo_files.sh

build/release/aril serve --demo --adapters build/demo/adapters --port "$port" >"$log" 2>&1 &
server=$!
wait_until_ready

rm -rf "$answers"
mkdir -p "$answers"
mapfile -t models < <(curl -fsS "$url/v1/models" | names)
asking=()
for model in "${models[@]}"; do
  ask "$model" &
  asking+=($!)
done
wait "${asking[@]}"

echo
echo "One prompt, asked of every model at once; their requests share the batches:"
echo "  \"$prompt …\""
echo
show_table || fail "not every model answered; the server's log is $log."
[[ ${DEMO_ONCE:-} ]] && exit 0

cat <<TEXT

Aril serves at $url until Ctrl-C (its log: $log). From another terminal:

  curl $url/v1/completions -H 'Content-Type: application/json' \\
    -d '{"model":"${models[-1]}","prompt":"Anna and Paul went to","max_tokens":40}'

or with the openai client (pip install openai):

  from openai import OpenAI
  client = OpenAI(base_url="$url/v1", api_key="none")
  print(client.completions.create(model="${models[-1]}", prompt="Anna and Paul went to").choices[0].text)

TEXT
wait "$server"
