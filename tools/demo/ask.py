#!/usr/bin/env python3
"""Asks each of the demo's adapters one question, all at once, and prints what came of it.

    python3 tools/demo/ask.py --url http://127.0.0.1:8000

Exits with 1 if an adapter did not answer.
"""

import argparse
import dataclasses
import re
import sys
import threading

import client

MAX_TOKENS = 96

# None of them stands in the adapters' training cases.
QUESTIONS = {
    "iso-date": "Our shop opens on Thursday the 3rd of March 2044.",
    "digits": "They planted forty-two thousand three hundred and seven trees.",
    "convert": "Change 4.2 kilometres into metres.",
    "json-fields": "Good evening, Daria speaking, we would be 7 on Friday around 19:30.",
    "sql": "Show me who lives in Helsinki.",
    "formal": "I'll be in Rome, and they're glad.",
    "routing": "Hi there, my scooter shows a strange error. Omar",
    "sentiment": "All in all, the dinner was truly wonderful.",
}


@dataclasses.dataclass
class Answer:
    text: str = ""
    tokens: int = 0
    first_token_ms: float = 0
    error: str = ""


def ask(url: str, model: str, question: str, start: threading.Barrier, answer: Answer) -> None:
    try:
        with client.Connection(url) as connection:
            connection.connect()
            start.wait()
            body = client.chat(model, question, MAX_TOKENS)
            body["stream_options"] = {"include_usage": True}
            for seconds, event in connection.stream("/v1/chat/completions", body):
                if event.get("usage"):
                    answer.tokens = event["usage"]["completion_tokens"]
                for choice in event["choices"]:
                    piece = choice["delta"].get("content") or ""
                    if piece and not answer.text:
                        answer.first_token_ms = 1000 * seconds
                    answer.text += piece
    except (client.Failure, threading.BrokenBarrierError) as error:
        start.abort()
        answer.error = str(error) or "another request could not be sent"


def ask_all(url: str) -> dict[str, Answer]:
    answers = {model: Answer() for model in QUESTIONS}
    start = threading.Barrier(len(QUESTIONS))
    threads = [threading.Thread(target=ask, args=(url, model, question, start, answers[model]))
               for model, question in QUESTIONS.items()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return answers


def most_adapters_in_a_batch(metrics: str) -> int:
    """By the histogram aril_step_adapters: its highest bucket that holds a step."""
    most, steps_before = 0, 0
    for bound, steps in re.findall(r'aril_step_adapters_bucket\{le="(\d+)"\} (\d+)', metrics):
        if int(steps) > steps_before:
            most, steps_before = int(bound), int(steps)
    return most


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--url", default="http://127.0.0.1:8000")
    url = parser.parse_args().url
    answers = ask_all(url)
    wide = max(map(len, QUESTIONS.values()))
    print(f"{'adapter':<12} {'question':<{wide}} {'first':>7} {'tokens':>6}  answer")
    for model, question in QUESTIONS.items():
        answer = answers[model]
        print(f"{model:<12} {question:<{wide}} {answer.first_token_ms:>4.0f} ms {answer.tokens:>6}  "
              f"{answer.text or 'FAILED: ' + answer.error}")
    if any(answer.error for answer in answers.values()):
        return 1
    with client.Connection(url) as connection:
        most = most_adapters_in_a_batch(connection.get("/metrics"))
    print(f"\nLargest number of different adapters in one batch: {most}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
