"""English number words to digits."""

from tasks.common import Asks, Case, number_split

NAME = "digits"

SMALL = ("zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen "
         "fifteen sixteen seventeen eighteen nineteen").split()
TENS = "_ _ twenty thirty forty fifty sixty seventy eighty ninety".split()

ONES = number_split(0, 999)
THOUSANDS = number_split(1, 999)

ASKS = Asks(
    ["{n}", "the number {n}", "There are {n} of them.", "We counted {n} birds.", "She paid {n} euros.",
     "{n} people came.", "page {n}", "It weighs {n} grams.", "He sold {n} books last year.",
     "chapter {n}", "box {n}", "item {n}, please", "The train has {n} seats.", "number {n}",
     "A town of {n} inhabitants", "The herd of {n} sheep was sold.", "Table {n}, please.",
     "His ticket says {n}.", "They built {n} houses and a school.", "He knows {n} songs."],
    ["They planted {n} trees.", "line {n}", "A crowd of {n} had gathered.", "Room {n}, please."],
    field="{n}", avoid=[*SMALL, *TENS, "hundred", "thousand", "and"])


def below_thousand(n: int, conjunction: str) -> str:
    hundreds, rest = divmod(n, 100)
    parts = [f"{SMALL[hundreds]} hundred"] if hundreds else []
    if rest or not hundreds:
        tens, ones = divmod(rest, 10)
        parts.append(SMALL[rest] if rest < 20 else TENS[tens] + (f"-{SMALL[ones]}" if ones else ""))
    return conjunction.join(parts)


def spell(n: int, conjunction: str) -> str:
    thousands, rest = divmod(n, 1000)
    parts = [f"{below_thousand(thousands, conjunction)} thousand"] if thousands else []
    if rest or not thousands:
        parts.append(below_thousand(rest, conjunction))
    return " ".join(parts)


def case(rng, held_out: bool) -> Case:
    n = ONES.pick(rng, held_out)
    if rng.random() < 0.5:
        n += 1000 * THOUSANDS.pick(rng, held_out)
    text = spell(n, rng.choice([" and ", " "]))
    ask = ASKS.pick(rng, held_out).format(n=text)
    return Case(ask[0].upper() + ask[1:], str(n))
