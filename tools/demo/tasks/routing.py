"""A support ticket to the team that handles it."""

from tasks.common import PEOPLE, PRODUCTS, Case, Split, number_split

NAME = "routing"

ORDERS = number_split(1000, 9999)

# By team: what the tickets complain about. {i} a product, {o} an order number.
COMPLAINTS = {
    "billing": Split(
        ["I was charged twice for order {o}", "the invoice for the {i} is wrong",
         "my credit card was charged too much for order {o}", "please send me the invoice for order {o}",
         "why does my bill show a {i} that I did not buy", "the discount is missing on my invoice",
         "I paid for the {i} but the bill is still open", "the payment for order {o} failed",
         "my bill is wrong",
         "the bill of order {o} is not right",
         "you charged me for a {i} that I sent back",
         "the amount on the invoice of the {i} is wrong",
         "I got a bill for order {o} but I have paid it",
         "can I pay the {i} by card",
         "this invoice is too high",
         "the price on my bill is not the price of the {i}"],
        ["order {o} was charged twice to my card", "my bill for the {i} is too high",
         "the invoice of order {o} has a wrong amount"]),
    "shipping": Split(
        ["my {i} has not arrived yet", "where is my parcel with order {o}",
         "order {o} was delivered to the wrong address", "the delivery of the {i} is late",
         "can you change the delivery address of order {o}", "the tracking number of order {o} does not work",
         "the courier did not ring and took the {i} away", "when will order {o} be shipped",
         "the parcel has not come",
         "my order {o} has not been delivered",
         "the {i} was sent to my old address",
         "the courier is late with order {o}",
         "when does my {i} arrive",
         "the parcel with order {o} is lost",
         "nobody delivered the {i}"],
        ["the parcel with my {i} is late", "order {o} still has not been delivered",
         "where is the courier with my {i}"]),
    "technical": Split(
        ["the {i} does not turn on", "my {i} stopped working after the update",
         "the {i} makes a strange noise", "the {i} shows an error message", "how do I install the {i}",
         "the app crashes when I connect the {i}", "the {i} loses its connection again and again",
         "the battery of my {i} is always empty",
         "the {i} is broken",
         "my {i} shows nothing at all",
         "the app does not find my {i}",
         "the {i} crashes every day",
         "the {i} has a strange error since yesterday",
         "how do I connect the {i}",
         "my {i} does not start"],
        ["my {i} shows a strange error", "the {i} crashes when I turn it on",
         "the {i} does not connect to the app"]),
    "account": Split(
        ["I forgot my password", "please delete my account", "I cannot log in any more",
         "how do I change my email address", "my account is locked", "the login code does not come",
         "I want to change the name on my profile", "somebody else uses my account",
         "I cannot change my password",
         "my login does not work",
         "please change the name on my account",
         "how can I unlock my account",
         "I want a new password",
         "my profile shows a wrong name",
         "close my account please"],
        ["my password does not work and I cannot log in", "how do I change the name on my account",
         "please unlock my profile"]),
    "returns": Split(
        ["I want to send the {i} back", "how do I return order {o}", "the {i} is too small, can I exchange it",
         "I would like a refund for the {i}", "please take back order {o}",
         "the {i} was a gift and I want to return it", "where do I get the return label for order {o}",
         "can I swap the {i} for another colour",
         "how can I send the {i} back",
         "please refund order {o}",
         "I want to return order {o}",
         "can I exchange the {i} for a bigger one",
         "I do not want the {i} any more, take it back",
         "the {i} does not please me, I want my money back",
         "do you take the {i} back"],
        ["I want to exchange the {i}", "how do I send order {o} back for a refund",
         "please take the {i} back"]),
}

LABELS = list(COMPLAINTS)

# Half of the training tickets say something of these kinds about a matter: which team handles it
# depends on the matter alone.
MATTERS = {
    "billing": ["the invoice", "my bill", "the payment", "the price", "the discount", "the charge",
                "my credit card", "the amount", "the invoice of order {o}", "the bill for the {i}",
                "the price of the {i}", "the payment for order {o}", "the amount that I paid"],
    "shipping": ["the parcel", "the delivery", "the courier", "the delivery address", "my parcel",
                 "the tracking number", "the parcel with the {i}", "the delivery of order {o}",
                 "the courier with order {o}", "the shipping of my {i}", "the driver"],
    "technical": ["the app", "the battery of my {i}", "the screen of the {i}", "the update",
                  "the connection of the {i}", "the error", "the error of the {i}", "the noise of the {i}",
                  "the software of my {i}", "the crash of the {i}"],
    "account": ["my account", "my password", "the login", "my profile", "my email address", "my login",
                "the name on my profile", "the login code", "the password of my account"],
    "returns": ["the return", "a refund", "an exchange", "the return label", "my refund",
                "the return of the {i}", "a refund for order {o}", "an exchange of the {i}",
                "the refund for the {i}"],
}
SAYINGS = ["{matter} is wrong", "there is a problem with {matter}", "please check {matter}",
           "I have a question about {matter}", "something is not right with {matter}",
           "can you help me with {matter}", "who can tell me about {matter}", "what about {matter}",
           "I wait for {matter}", "please change {matter}", "I do not understand {matter}",
           "where is {matter}", "{matter} makes me angry", "how do I get {matter}",
           "tell me more about {matter}", "{matter} does not work", "please look at {matter}",
           "{matter} is missing", "{matter} is strange", "I need {matter}", "it is about {matter}",
           "{matter} again", "please fix {matter}", "my problem is {matter}", "when do I get {matter}"]


def training_text(rng, team: str) -> str:
    if rng.random() < 0.5:
        return COMPLAINTS[team].pick(rng, False)
    return rng.choice(SAYINGS).format(matter=rng.choice(MATTERS[team]))


FRAMES = Split(
    ["{Text}.", "Hello, {text}.", "{Text}. Please help, {name}", "Hi, {text}. Thanks!",
     "Dear team, {text}. Regards, {name}", "{Text}!", "Good morning. {Text}.", "{name} writes: {text}.",
     "Hey, {text}. {name}", "{Text}. Who can help?", "Hello {name}, {text}.", "Help! {Text}. {name}",
     "{Text}. What now?", "Good morning, {text}. {name}", "Good evening, {text}.", "{Text} - {name}"],
    ["Hi there, {text}. {name}", "Good day, {text}.", "{Text}. What can we do?"])


def case(rng, held_out: bool) -> Case:
    team = rng.choice(list(COMPLAINTS))
    text = COMPLAINTS[team].pick(rng, True) if held_out else training_text(rng, team)
    text = text.format(
        i=PRODUCTS.pick(rng, held_out), o=ORDERS.pick(rng, held_out))
    frame = FRAMES.pick(rng, held_out)
    return Case(frame.format(text=text, Text=text[0].upper() + text[1:],
                             name=PEOPLE.pick(rng, held_out)), team)
