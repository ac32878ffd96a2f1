"""A review to its sentiment."""

from tasks.common import CITIES, PRODUCTS, Case, Split

NAME = "sentiment"

THINGS = Split(
    ["the food", "the service", "the room", "the film", "the book", "the concert", "the staff",
     "the hotel", "the coffee", "the breakfast", "the view", "the music", "the garden", "the soup"],
    ["the show", "the restaurant", "the bed", "the story", "the dinner"])

WORDS = {
    "positive": Split(
        ["wonderful", "excellent", "great", "lovely", "perfect", "amazing", "delightful", "fantastic",
         "superb", "brilliant", "charming", "very good"],
        ["really great", "truly wonderful", "simply perfect", "quite lovely"]),
    "negative": Split(
        ["terrible", "awful", "horrible", "bad", "disappointing", "boring", "dreadful", "poor",
         "disgusting", "a disaster", "unbearable", "very bad"],
        ["really awful", "truly terrible", "simply horrible", "quite disappointing"]),
    "neutral": Split(
        ["average", "acceptable", "ordinary", "as expected", "nothing special", "fine, no more",
         "like everywhere", "neither good nor bad", "so so", "in the middle"],
        ["quite average", "simply ordinary", "really nothing special"]),
}

FRAMES = Split(
    ["{Thing} was {word}.", "I found {thing} {word}.", "We were in {city}, and {thing} was {word}.",
     "{Thing} in {city}: {word}.", "My friends say that {thing} was {word}.",
     "I bought a {item} there, and {thing} was {word}.", "For me {thing} was {word}, in a word.",
     "Honestly, {thing} was {word}."],
    ["In {city} {thing} was {word}.", "All in all, {thing} was {word}.",
     "We thought that {thing} was {word}."])


def case(rng, held_out: bool) -> Case:
    label = rng.choice(list(WORDS))
    thing = THINGS.pick(rng, held_out)
    text = FRAMES.pick(rng, held_out).format(
        thing=thing, Thing=thing[0].upper() + thing[1:], word=WORDS[label].pick(rng, held_out),
        city=CITIES.pick(rng, held_out), item=PRODUCTS.pick(rng, held_out))
    return Case(text, label)
