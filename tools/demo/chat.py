"""The chat format of the demo model: what its chat template renders."""

USER, ASSISTANT, END = "<|user|>", "<|assistant|>", "<|end|>"

TEMPLATE = (
    "{%- for message in messages %}"
    "{%- if message.role not in ['user', 'assistant'] %}"
    "{{- raise_exception('The demo model knows the roles user and assistant only.') }}"
    "{%- endif %}"
    "{{- '<|' + message.role + '|>' + message.content + '<|end|>' }}"
    "{%- endfor %}"
    "{%- if add_generation_prompt %}{{- '<|assistant|>' }}{%- endif %}")


def render(turns) -> str:
    """`turns`: (question, answer) pairs."""
    return "".join(f"{USER}{question}{END}{ASSISTANT}{answer}{END}" for question, answer in turns)


def prompt(question: str) -> str:
    return f"{USER}{question}{END}{ASSISTANT}"
