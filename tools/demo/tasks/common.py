"""What the tasks share: cases, and values that are split between training and holding out."""

import dataclasses
import random

import dictionary


@dataclasses.dataclass(frozen=True)
class Case:
    question: str
    answer: str


class Split:
    """Values of which training sees some and the held-out cases the others."""

    def __init__(self, train, held_out):
        assert not set(train) & set(held_out), set(train) & set(held_out)
        self._values = {False: tuple(train), True: tuple(held_out)}

    def pick(self, rng: random.Random, held_out: bool):
        return rng.choice(self._values[held_out])

    def sample(self, rng: random.Random, held_out: bool, count: int):
        return rng.sample(self._values[held_out], count)


VOWELS = ("a", "e", "i", "o", "u", "ei", "au", "ie", "oo", "y")
CONSONANTS = ("b", "c", "ch", "d", "f", "g", "h", "k", "l", "ll", "m", "n", "nn", "p", "r", "s", "st",
              "t", "tt", "v", "w", "x", "z")


def invented_word(rng: random.Random) -> str:
    """What no list of words has, in small letters."""
    return "".join(rng.choice(("", *CONSONANTS)) + rng.choice(VOWELS) + rng.choice(("", *CONSONANTS))
                   for _ in range(rng.randint(1, 3)))


def random_words(rng: random.Random, most: int, avoid: frozenset) -> list[str]:
    """Up to `most`, invented or of the dictionary, but none to `avoid`."""
    drawn = (invented_word(rng) if rng.random() < 0.3 else rng.choice(dictionary.words())
             for _ in range(rng.randint(0, most)))
    return [word for word in drawn if word not in avoid]


class Asks(Split):
    """Sentences around what is asked about. Training puts every other one together from any words: it is
    to be learned that they do not matter, and a list of some dozens would be learned by heart."""

    def __init__(self, train, held_out, field: str, avoid):
        super().__init__(train, held_out)
        self._field = field
        self._avoid = frozenset(avoid)

    def pick(self, rng: random.Random, held_out: bool) -> str:
        if held_out or rng.random() < 0.5:
            return super().pick(rng, held_out)
        before = random_words(rng, 4, self._avoid)
        after = random_words(rng, 2, self._avoid)
        text = " ".join([*before, self._field, *after])
        if before:
            text = text[0].upper() + text[1:] if rng.random() < 0.8 else text
        return text + rng.choice(("", "", ".", ", please.", "!", "?"))


class Names(Split):
    """Words that an answer repeats. In training most of them are invented or drawn from a dictionary: a
    list of some dozens would be learned by heart, and what is to be learned is to copy."""

    def __init__(self, train, held_out, capitalized: bool):
        super().__init__(train, held_out)
        self._capitalized = capitalized
        self._held_out = {name.lower() for name in held_out}

    def known(self, rng: random.Random) -> str:
        """One of the training list."""
        return super().pick(rng, False)

    def pick(self, rng: random.Random, held_out: bool, kinds: int = 3) -> str:
        """In training one of `kinds` is of the list; the others are invented and of the dictionary, in
        turn."""
        kind = rng.randrange(kinds)
        if held_out or kind == 0:
            return super().pick(rng, held_out)
        word = invented_word(rng) if kind % 2 else rng.choice(dictionary.words())
        if word in self._held_out:
            return self.known(rng)
        return word.capitalize() if self._capitalized else word


def words(text: str) -> list[str]:
    """A list from a text of words; an underscore stands for a space."""
    return [word.replace("_", " ") for word in text.split()]


def number_split(low: int, high: int) -> Split:
    """Integers of which every fifth, by a fixed scramble, is held out."""
    held_out = [n for n in range(low, high + 1) if (n * 2654435761 >> 7) % 5 == 0]
    return Split([n for n in range(low, high + 1) if n not in set(held_out)], held_out)


PEOPLE = Names(
    words("""Anna Ben Carla David Elena Felix Grace Hugo Ines Jonas Karin Leo Maria Nils Olga Paul
          Rosa Simon Tara Victor Wendy Yusuf Amir Bianca Chloe Diego Emma Farid Gita Hannah Ivan
          Julia Kofi Lena Marco Nora Oscar Petra Quinn Rita Stefan Tomas Una Vera Walter Zoe Adam
          Beth Cyril Dora Erik Frida Gabriel Helen Igor Jasmin Kurt Lucia Miguel Nadia"""),
    words("""Alan Brigitte Cedric Daria Edwin Flora Gustav Hilda Isaac Jana Kamal Linda Matteo
          Nina Omar Paula Ralf Sonja Theo Ursula Vincent Wanda Xenia Yara Zoltan"""), capitalized=True)

CITIES = Names(
    words("""Paris Berlin Madrid Oslo Vienna Prague Lisbon Dublin Athens Warsaw Boston Denver
          Chicago Dallas Toronto Montreal Lima Bogota Cairo Nairobi Delhi Mumbai Tokyo Osaka Seoul
          Sydney Perth Bergen Hamburg Munich Porto Seville Lyon Nantes Turin Naples Geneva"""),
    words("""Rome London Zurich Helsinki Stockholm Budapest Austin Seattle Quito Lagos Bangkok
          Hanoi Melbourne Leipzig Valencia Marseille Genoa Basel"""), capitalized=True)

PRODUCTS = Names(
    words("""lamp chair desk phone laptop camera printer keyboard monitor backpack jacket kettle
          toaster blender bicycle tent watch speaker router tablet mirror sofa carpet heater fan
          drill ladder wallet suitcase helmet guitar piano violin notebook pencil bottle"""),
    words("""table mouse scanner umbrella mattress oven freezer scooter drum bookshelf scarf
          microphone projector hammer candle pillow"""), capitalized=False)
