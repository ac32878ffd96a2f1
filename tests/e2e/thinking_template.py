"""A chat template of the demo model whose assistant thinks: `<t>`, a thought, and a token that the demo does not write
by itself. Calls and their tools are there, too."""

END = 0  # the token that ends a thought
_MESSAGES = """\
{%- for tool in tools or [] %}{{- tool.function.name + ' ' }}{%- endfor %}
{%- for message in messages %}
{{- '<|' + message.role + '|>' }}
{%- if message.reasoning_content %}{{- '<t>' + message.reasoning_content + '<|pad|>' }}{%- endif %}
{{- message.content }}
{%- for call in message.tool_calls %}
{{- '<call>{"name": "' + call.function.name + '", "arguments": ' + call.function.arguments | tojson + '}</call>' }}
{%- endfor %}
{{- '<|end|>' }}
{%- endfor %}
"""


def template(begin: str) -> str:
    """Its text; `begin` is the expression of what an answer begins with."""
    return _MESSAGES + "{%- if add_generation_prompt %}{{- '<|assistant|>' + (" + begin + ") }}{%- endif %}"
