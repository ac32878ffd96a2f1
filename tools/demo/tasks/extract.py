"""A request for a table to the fields of a reservation, as JSON."""

import json

from tasks.common import Case, PEOPLE, Split, number_split

NAME = "json-fields"

GUESTS = number_split(2, 40)
HOURS = (11, 12, 13, 17, 18, 19, 20, 21)
MINUTES = (0, 15, 30, 45)
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")

ASKS = Split(
    ["A table for {guests} on {day} at {time}, name {name}.",
     "Hi, this is {name}. Can we have a table for {guests} on {day} at {time}?",
     "{name} here: {day}, {time}, {guests} people.",
     "Please book {guests} seats for {name} at {time} on {day}.",
     "On {day} we are {guests} and would come at {time}. My name is {name}.",
     "Could you reserve for {guests} guests at {time} this {day}? {name}",
     "{guests} persons, {day} {time}, under the name {name}",
     "Hello! {name} would like to come on {day} at {time} with {guests} people.",
     "Reservation for {name}: {guests} people, {time} on {day}.",
     "We need a table on {day}, {guests} people, {time}. Thanks, {name}"],
    ["Good evening, {name} speaking, we would be {guests} on {day} around {time}.",
     "Do you have room for {guests} at {time} on {day}? The name is {name}.",
     "{day} at {time} for {guests}, please. {name}",
     "I am {name} and want to eat with you on {day} at {time}; there are {guests} of us."])


def case(rng, held_out: bool) -> Case:
    fields = {"name": PEOPLE.pick(rng, held_out), "guests": GUESTS.pick(rng, held_out),
              "day": rng.choice(DAYS), "time": f"{rng.choice(HOURS)}:{rng.choice(MINUTES):02}"}
    return Case(ASKS.pick(rng, held_out).format(**fields), json.dumps(fields))
