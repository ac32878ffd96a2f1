"""A date as people write it, to ISO 8601."""

import datetime

from tasks.common import Asks, Case, Split, number_split

NAME = "iso-date"

MONTHS = ("January February March April May June July August September October November "
          "December").split()
YEARS = number_split(1950, 2049)
DAYS = number_split(0, 365)

DATES = Split(
    ["{day} {month} {year}", "{month} {day}, {year}", "{ordinal} {month} {year}",
     "the {ordinal} of {month} {year}", "{month} {ordinal}, {year}", "{short} {day}, {year}",
     "{day} {short} {year}", "{weekday}, {day} {month} {year}", "{weekday}, {month} {day}, {year}",
     "{day}. {month} {year}", "{year} {month} {day}"],
    ["{weekday} the {ordinal} of {month} {year}", "{weekday} {day} {short} {year}",
     "{short} {ordinal} {year}", "{month} the {ordinal}, {year}"])

ASKS = Asks(
    ["{date}", "Date: {date}", "It happened on {date}.", "The invoice is from {date}.",
     "We meet on {date}.", "Delivered {date}", "She was born on {date}.", "due by {date}",
     "The contract ends on {date}.", "Please note {date} in the calendar."],
    ["The ship left on {date}.", "Signed: {date}", "He moved in on {date}.",
     "Our shop opens on {date}."],
    field="{date}", avoid=[*(month.lower() for month in MONTHS),
                           *(month[:3].lower() for month in MONTHS)])


def ordinal(day: int) -> str:
    suffix = "th" if 11 <= day <= 13 else {1: "st", 2: "nd", 3: "rd"}.get(day % 10, "th")
    return f"{day}{suffix}"


def case(rng, held_out: bool) -> Case:
    date = datetime.date(YEARS.pick(rng, held_out), 1, 1) + datetime.timedelta(
        days=DAYS.pick(rng, held_out) % 365)
    month = MONTHS[date.month - 1]
    text = DATES.pick(rng, held_out).format(
        day=date.day, ordinal=ordinal(date.day), month=month, short=month[:3], year=date.year,
        weekday=date.strftime("%A"))
    return Case(ASKS.pick(rng, held_out).format(date=text), date.isoformat())
