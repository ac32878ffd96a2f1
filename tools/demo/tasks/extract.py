"""A request for a table to the fields of a reservation, as JSON."""

import json

from tasks.common import Case, PEOPLE, number_split

NAME = "json-fields"

GUESTS = number_split(2, 40)
HOURS = (11, 12, 13, 17, 18, 19, 20, 21)
MINUTES = (0, 15, 30, 45)
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")

# A training request is put together from one of each, in any order: that what counts is a name, a
# number, a day and a time, wherever they stand, is to be learned.
GREETINGS = ("", "", "", "Hello!", "Hi,", "Good morning,", "Dear team,", "Hey,", "One question:")
PARTIES = ("a table for {guests}", "{guests} people", "we are {guests}", "for {guests} guests",
           "{guests} seats", "{guests} persons", "a party of {guests}", "{guests} of us",
           "places for {guests}", "with {guests} friends in all")
DAYS_ASKED = ("on {day}", "{day}", "this {day}", "next {day}", "coming {day}", "for {day}")
TIMES = ("at {time}", "{time}", "around {time}", "from {time}", "about {time}", "{time} sharp")
NAMES = ("name {name}", "{name} here", "my name is {name}", "under the name {name}", "for {name}",
         "this is {name}", "Thanks, {name}", "{name}", "reserved by {name}", "signed {name}",
         "Mr {name}", "Yours, {name}", "it is {name}", "{name} wants to come", "I'm {name}",
         "{name} and friends")
JOINTS = (", ", ", ", " ", "; ", ": ", ". ", " and ")
ENDS = (".", "", "?", " please.", "!", ", thank you.")

HELD_OUT = (
    "Good evening, {name} speaking, we would be {guests} on {day} around {time}.",
    "Do you have room for {guests} at {time} on {day}? The name is {name}.",
    "{day} at {time} for {guests}, please. {name}",
    "I am {name} and want to eat with you on {day} at {time}; there are {guests} of us.")


def training_template(rng) -> str:
    parts = [rng.choice(kind) for kind in (PARTIES, DAYS_ASKED, TIMES, NAMES)]
    rng.shuffle(parts)
    text = parts[0]
    for part in parts[1:]:
        text += rng.choice(JOINTS) + part
    text = f"{rng.choice(GREETINGS)} {text}".strip() + rng.choice(ENDS)
    return text[0].upper() + text[1:]


def case(rng, held_out: bool) -> Case:
    fields = {"name": PEOPLE.pick(rng, held_out, kinds=7), "guests": GUESTS.pick(rng, held_out),
              "day": rng.choice(DAYS), "time": f"{rng.choice(HOURS)}:{rng.choice(MINUTES):02}"}
    template = rng.choice(HELD_OUT) if held_out else training_template(rng)
    return Case(template.format(**fields), json.dumps(fields))
