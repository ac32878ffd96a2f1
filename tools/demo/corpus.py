"""What the base model reads: text that this file makes up, and Ambrose Bierce's dictionary.

The base learns English of the tasks' vocabulary, to copy what stands before, and the turns of a chat,
in which it makes conversation. It sees questions as the tasks' training cases have them, and never
an answer of a task.
"""

import random
import re

import chat
import dictionary
from tasks import TASKS
from tasks.common import CITIES, PEOPLE, PRODUCTS, invented_word

VERBS = ("bought", "sold", "lost", "found", "painted", "repaired", "carried", "wanted", "liked", "saw")
PLACES = ("at the market", "in the garden", "near the river", "behind the house", "on the train",
          "in the kitchen", "by the window", "under the tree")
ENDINGS = ("Then it was time to go home.", "Nobody knew why.", "They laughed for a long time.",
           "The next day it rained.", "It was a good day.", "So they drank tea.")


def person(rng):
    return PEOPLE.known(rng)


def thing(rng):
    return PRODUCTS.known(rng)


def city(rng):
    return CITIES.known(rng)


def story(rng) -> str:
    """A few sentences about somebody who keeps his name and his thing."""
    who, friend, what, where = person(rng), person(rng), thing(rng), city(rng)
    if rng.random() < 0.3:
        friend, where = invented_word(rng).capitalize(), invented_word(rng).capitalize()
    sentences = [f"{who} from {where} {rng.choice(VERBS)} a {what} {rng.choice(PLACES)}.",
                 f"{friend} {rng.choice(VERBS)} the {what}, too.",
                 f'"The {what} is {rng.choice(("old", "new", "small", "heavy", "blue"))}", said {who}.',
                 f"{who} and {friend} went to {where}.",
                 f"The {what} was {rng.choice(PLACES)}.",
                 f"{friend} asked {who} about the {what}."]
    return " ".join([*rng.sample(sentences, rng.randint(2, 5)), rng.choice(ENDINGS)])


def strange_word(rng) -> str:
    """Copying must not depend on having met a word before."""
    word = invented_word(rng)
    return word.capitalize() if rng.random() < 0.7 else word


def number(rng) -> str:
    return str(rng.randint(0, 10 ** rng.randint(1, 6)))


def items(rng) -> list[str]:
    makers = (person, thing, city, number, strange_word, strange_word)
    return [rng.choice(makers)(rng) for _ in range(rng.randint(2, 6))]


def listing(rng) -> str:
    """The same things twice, in two forms: what stands before is to be copied."""
    values = items(rng)
    forms = (", ".join, " ".join, "; ".join, "\n".join, lambda v: str(v),
             lambda v: "\n".join(f"- {x}" for x in v), lambda v: " and ".join(v),
             lambda v: "[" + "|".join(v) + "]", lambda v: "<" + "><".join(v) + ">")
    first, second = rng.sample(forms, 2)
    return f"{first(values)}\n{second(values)}"


def record(rng) -> str:
    """Keys with values, then single values asked for."""
    keys = rng.sample(("owner", "place", "object", "code", "friend", "weight"), 3)
    values = dict(zip(keys, (person(rng), city(rng), f"{rng.randint(1, 9999)}")))
    lines = [f"{key} is {value}" for key, value in values.items()]
    rng.shuffle(lines)
    asked = rng.sample(keys, 2)
    return ". ".join(lines) + ". " + " ".join(f"{key}? {values[key]}." for key in asked)


def echo(rng) -> tuple[str, str]:
    values = items(rng)
    text = " ".join(values)
    return rng.choice([(f"Say: {text}", text), (f"Repeat after me: {text}", text),
                       (f"What did I say first? {text}", values[0]),
                       (f"What did I say last? {text}", values[-1]),
                       (f"Twice, please: {text}", f"{text} {text}"),
                       (f"Say it letter by letter: {values[0]}", " ".join(values[0])),
                       (f"Spell it together: {' '.join(values[0])}", values[0]),
                       (f"Backwards: {text}", " ".join(reversed(values)))])


def small_talk(rng) -> tuple[str, str]:
    """A question of some task, and no answer to it."""
    question = rng.choice(list(TASKS.values())).case(rng, False).question
    words = re.findall(r"[A-Za-z']{4,}", question) or ["that"]
    word = rng.choice(words).lower()
    reply = rng.choice([f"Tell me more about {word}.", "I see.", "That is interesting.",
                        f"Why do you speak of {word}?", "Let us talk about something else.",
                        story(rng), "I am a small model and like stories."])
    return question, reply


def conversation(rng) -> str:
    return chat.render([rng.choice([echo, echo, small_talk])(rng)])


def definition(rng) -> str:
    return rng.choice(dictionary.entries())


DOCUMENTS = ((story, 3), (listing, 3), (record, 2), (conversation, 8), (definition, 2))


def document(rng: random.Random) -> str:
    makers, weights = zip(*DOCUMENTS)
    return rng.choices(makers, weights)[0](rng)
