#!/usr/bin/env bash
# Builds Aril, serves its demo, asks each of the eight adapters one question at once, shows the
# answers, and stays up until Ctrl-C. `make demo` runs this.
#
#   PORT=8000     where to listen
#   DEMO_ONCE=1   end after the table, for scripts
set -euo pipefail
cd "$(dirname "$0")/.."
port=${PORT:-8000}
url=http://127.0.0.1:$port
log=build/demo/serve.log
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

if ! [[ $port =~ ^[1-9][0-9]{0,4}$ ]] || ((port > 65535)); then
  fail "PORT=$port is no port number from 1 to 65535."
fi
port_is_free || fail "port $port is in use. Stop what listens there, or run: PORT=$((port + 1)) make demo"
echo "Building (a few minutes the first time) …"
make --no-print-directory build
mkdir -p build/demo

build/release/aril serve --demo --port "$port" >"$log" 2>&1 &
server=$!
wait_until_ready

echo
echo "One question for each adapter, all at once; their requests share the batches:"
echo
python3 tools/demo/ask.py --url "$url" || fail "not every adapter answered; the server's log is $log."
[[ ${DEMO_ONCE:-} ]] && exit 0

cat <<TEXT

Aril serves at $url until Ctrl-C (its log: $log). From another terminal:

  curl $url/v1/chat/completions -H 'Content-Type: application/json' \\
    -d '{"model": "sql", "temperature": 0,
         "messages": [{"role": "user", "content": "Which customers live in London?"}]}'

or with the openai client (pip install openai):

  from openai import OpenAI
  client = OpenAI(base_url="$url/v1", api_key="none")
  question = [{"role": "user", "content": "Which customers live in London?"}]
  answer = client.chat.completions.create(model="sql", messages=question, temperature=0)
  print(answer.choices[0].message.content)

and to watch it: build/release/aril top --url $url

TEXT
wait "$server"
