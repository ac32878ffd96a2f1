#!/usr/bin/env python3
"""Writes a man page for each command of `aril`, from what its --help says.

usage: man_pages.py BINARY DIR

DIR gets aril.1, aril-serve.1, aril-bench-serve.1 and so on: the commands are found by asking. The
date is $SOURCE_DATE_EPOCH's. (help2man does not know the shape of CLI11's help: groups, REQUIRED,
variables of the environment, commands of commands.)
"""

import dataclasses
import datetime
import os
import pathlib
import re
import subprocess
import sys

EXIT_STATUS = [("0", "Fine."), ("1", "Failed; the last line of the error says what to do."),
               ("2", "Wrong usage.")]
FILES = {"aril-serve": [
    ("/etc/aril/aril.env", "The environment of the systemd service: ARIL_ variables, one per line."),
]}
# What CLI11 prints: `  --flag KIND:CHECK=DEFAULT ... REQUIRED (Env:NAME) Needs: OTHER Excludes: OTHER`, then
# the description: in a column of its own or, where the head is too long for it, on the next line.
COLUMN = 30
OPTION = re.compile(
    r"^  (?P<names>\S+)(?: (?P<value>\S.*?))??(?P<required> REQUIRED)?"
    r"(?: \(Env:(?P<environment>\w+)\))?(?: Needs: (?P<needs>\S+(?: [^ :]+)*))?"
    r"(?: Excludes: (?P<excludes>\S+(?: \S+)*))?$")
VALUE = re.compile(
    r"^(?P<kind>[A-Z]+(?:[=:][A-Z]+)*(?:,\.\.\.)?)"
    r"(?::(?:\w+ in \[(?P<low>\S+) - (?P<high>\S+)\]|\{(?P<choices>[^}]*)\}))?"
    r"(?:=(?P<default>.*?))?(?P<many> \.\.\.)?$")


@dataclasses.dataclass
class Option:
    names: str
    kind: str = ""  # "INT", or "TEXT ..."
    text: str = ""
    environment: str = ""


@dataclasses.dataclass
class Command:
    name: str  # "aril bench serve"
    description: str
    usage: str
    options: dict[str, list[Option]] = dataclasses.field(default_factory=dict)  # by group
    commands: list[tuple[str, str]] = dataclasses.field(default_factory=list)  # name, description


def sentence(text: str) -> str:
    return text if text.endswith(".") else text + "."


def parse_option(head: str, text: str) -> Option:
    match = OPTION.match(head.rstrip())
    value = VALUE.match(match["value"]) if match and match["value"] else None
    if not match or (match["value"] and not value):
        sys.exit(f"man_pages.py: no option: {head}")
    option = Option(match["names"].replace(",", ", "), environment=match["environment"] or "")
    sentences = [sentence(text)]
    if value:
        option.kind = value["kind"] + (value["many"] or "")
        if value["choices"]:
            sentences += [f"One of {value['choices'].replace(',', ', ')}."]
        if value["low"]:
            sentences += [f"Between {value['low']} and {value['high']}."]
        if default := (value["default"] or "").strip("[]"):
            sentences += [f"Default: {default}."]
    if match["required"]:
        sentences += ["Required."]
    if match["needs"]:
        sentences += [f"Only together with {' and '.join(match['needs'].split())}."]
    if match["excludes"]:
        sentences += [f"Not together with {' or '.join(match['excludes'].split())}."]
    option.text = " ".join(sentences)
    return option


def parse(name: str, text: str) -> Command:
    """Reads the --help of the command `name`; ends this program at a line that fits nowhere."""
    lines = [line.rstrip() for line in text.splitlines()]
    usage = next(line for line in lines if line.startswith("Usage: "))
    begin = lines.index(usage)
    command = Command(name, " ".join(lines[:begin]).strip(), usage.removeprefix("Usage: "))
    group = ""
    rest = [line for line in lines[begin + 1:] if line]
    for line, following in zip(rest, [*rest[1:], ""]):
        if not line.startswith(" "):
            group = line.removesuffix(":")
        elif group == "Subcommands":
            child, _, description = line.strip().partition(" ")
            command.commands.append((child, description.strip()))
        elif re.match(r"  \S", line):
            is_long = following.startswith(" " * COLUMN)
            head, text = (line, following) if is_long else (line[:COLUMN], line[COLUMN:])
            command.options.setdefault(group, []).append(parse_option(head, text.strip()))
        elif not line.startswith(" " * COLUMN):
            sys.exit(f"man_pages.py: `{name} --help` has a line of unknown shape: {line}")
    return command


def read(binary: str, path: list[str]) -> list[Command]:
    """The command `path` and all below it."""
    text = subprocess.run([binary, *path, "--help"], check=True, capture_output=True, text=True,
                          env={"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"}).stdout
    command = parse(" ".join(["aril", *path]), text)
    below = [read(binary, [*path, name]) for name, _ in command.commands]
    return [command, *(each for commands in below for each in commands)]


def escape(text: str) -> str:
    text = text.replace("\\", r"\e").replace("-", r"\-").replace("…", "...")
    return re.sub(r"^([.'])", r"\\&\1", text)


def option_lines(option: Option) -> list[str]:
    names = ", ".join(rf"\fB{escape(name)}\fR" for name in option.names.split(", "))
    if not option.names.startswith("-"):
        names = rf"\fI{escape(option.names)}\fR"
    elif option.kind:
        names += rf" \fI{escape(option.kind)}\fR"
    lines = [".TP", names, escape(option.text)]
    if option.environment:
        lines += [".br", rf"Environment: \fB{escape(option.environment)}\fR"]
    return lines


def page(command: Command, everything: list[Command], version: str, date: str) -> str:
    name = command.name.replace(" ", "-")
    description = command.description.removeprefix("Aril ").rstrip(".")
    lines = [rf'.TH {escape(name.upper())} 1 {date} "aril {escape(version)}" "User Commands"',
             ".SH NAME", escape(name) + r" \- " + escape(description[0].lower() + description[1:]),
             ".SH SYNOPSIS", rf"\fB{escape(command.name)}\fR"
             + escape(command.usage.removeprefix(command.name).replace(" SUBCOMMAND", " COMMAND"))]
    if command.commands:
        lines += [".SH COMMANDS"]
        for child, text in command.commands:
            lines += [".TP", rf"\fB{escape(child)}\fR", escape(sentence(text))]
    if positionals := command.options.get("Positionals"):
        lines += [".SH ARGUMENTS", *(line for each in positionals for line in option_lines(each))]
    groups = {name: options for name, options in command.options.items() if name != "Positionals"}
    lines += [".SH OPTIONS"]
    for group, options in groups.items():
        lines += [f".SS {escape(group)}"] if len(groups) > 1 else []
        for option in options:
            lines += option_lines(option)
    if any(option.environment for options in command.options.values() for option in options):
        lines += [".SH ENVIRONMENT",
                  escape("Each option has a variable, named beside it; the command line wins over "
                         "it. One that is empty counts as not set. Several values are written as "
                         "[a,b].")]
    lines += [".SH EXIT STATUS"]
    for status, text in EXIT_STATUS:
        lines += [".TP", rf"\fB{status}\fR", escape(text)]
    if name in FILES:
        lines += [".SH FILES"]
        for path, text in FILES[name]:
            lines += [".TP", rf"\fI{escape(path)}\fR", escape(text)]
    others = sorted({each.name.replace(" ", "-") for each in everything} - {name})
    related = [other for other in others if other.startswith(name) or name.startswith(other)]
    if related:
        lines += [".SH SEE ALSO"]
        lines += [rf".BR {escape(other)} (1)" + ("," if other != related[-1] else "")
                  for other in related]
    return "\n".join(lines) + "\n"


def main() -> None:
    binary, out = sys.argv[1], pathlib.Path(sys.argv[2])
    version = subprocess.run([binary, "--version"], check=True, capture_output=True,
                             text=True).stdout.split()[-1]
    date = datetime.datetime.fromtimestamp(int(os.environ["SOURCE_DATE_EPOCH"]),
                                           datetime.timezone.utc).strftime("%Y-%m-%d")
    out.mkdir(parents=True, exist_ok=True)
    commands = read(binary, [])
    for command in commands:
        file = out / (command.name.replace(" ", "-") + ".1")
        file.write_text(page(command, commands, version, date), encoding="utf-8")


if __name__ == "__main__":
    main()
