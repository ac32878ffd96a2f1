"""A question about a table to the SQL query that answers it."""

from tasks.common import CITIES, PEOPLE, PRODUCTS, Case, number_split

NAME = "sql"

AMOUNTS = number_split(10, 990)

# What a question is about, in its words, and the query: {c} a city, {p} a person, {i} a product, {n} a
# number. Training puts a beginning before what it fits to.
SHOW = ("Show ", "List ", "Find ", "Give me ", "I need ", "I want to see ", "Please show ", "Get ",
        "Tell me ", "Which are ", "Who are ", "Name ", "Could you show ", "Can you give me ",
        "Would you list ", "Could I see ", "Can I have ")
TOPICS = (
    (SHOW, ("the customers from {c}", "all customers in {c}", "customers who live in {c}",
            "everybody from {c}", "our customers in {c}", "those who live in {c}", "people in {c}",
            "the customers of {c}"),
     "SELECT name FROM customers WHERE city = '{c}';"),
    (("",), ("which customers live in {c}", "who lives in {c}", "who is from {c}",
             "which customers are from {c}", "do we have customers in {c}"),
     "SELECT name FROM customers WHERE city = '{c}';"),
    (("How many ", "Count ", "Count the ", "Could you count the ", "What is the number of ",
      "Tell me the number of ", "Give me the number of "),
     ("customers in {c}", "customers are in {c}", "customers from {c}", "people from {c}",
      "customers who live in {c}", "customers live in {c}"),
     "SELECT COUNT(*) FROM customers WHERE city = '{c}';"),
    (("What is ", "Tell me ", "Show ", "Give me ", "I need ", "How much is "),
     ("the price of the {i}", "the price for a {i}", "the cost of a {i}", "the {i}", "what a {i} costs",
      "the price of one {i}", "our price for the {i}"),
     "SELECT price FROM products WHERE name = '{i}';"),
    (("",), ("what does a {i} cost", "how much is a {i}", "what is the {i} sold for",
             "how expensive is a {i}", "for how much do we sell the {i}"),
     "SELECT price FROM products WHERE name = '{i}';"),
    (SHOW, ("products with a price above {n}", "the products over {n}", "products that cost over {n}",
            "all products more expensive than {n}", "what costs more than {n}"),
     "SELECT name FROM products WHERE price > {n};"),
    (("",), ("which products cost more than {n}", "what costs above {n}",
             "which products are over {n}"),
     "SELECT name FROM products WHERE price > {n};"),
    (SHOW, ("products with a price below {n}", "the products under {n}", "products that cost under {n}",
            "all products cheaper than {n}", "what costs less than {n}"),
     "SELECT name FROM products WHERE price < {n};"),
    (("",), ("which products cost less than {n}", "what costs below {n}",
             "which products are under {n}"),
     "SELECT name FROM products WHERE price < {n};"),
    (SHOW, ("the orders of {p}", "everything that {p} ordered", "all orders by {p}", "what {p} ordered",
            "the products that {p} bought", "what {p} has bought"),
     "SELECT product FROM orders WHERE customer = '{p}';"),
    (("",), ("what has {p} ordered", "which products did {p} order", "what did {p} buy",
             "which things has {p} bought"),
     "SELECT product FROM orders WHERE customer = '{p}';"),
    (SHOW, ("everybody who ordered the {i}", "those who bought a {i}", "who ordered the {i}",
            "the customers who bought a {i}", "all who ordered a {i}", "the buyers of the {i}"),
     "SELECT customer FROM orders WHERE product = '{i}';"),
    (("",), ("who ordered a {i}", "which customers bought a {i}", "who has ordered the {i}",
             "by whom was the {i} ordered"),
     "SELECT customer FROM orders WHERE product = '{i}';"),
)

HELD_OUT = (
    ("Show me who lives in {c}.", "SELECT name FROM customers WHERE city = '{c}';"),
    ("Could you list the customers from {c}?", "SELECT name FROM customers WHERE city = '{c}';"),
    ("Count all customers in {c}.", "SELECT COUNT(*) FROM customers WHERE city = '{c}';"),
    ("What is the price of a {i}?", "SELECT price FROM products WHERE name = '{i}';"),
    ("Show the products that cost more than {n}.", "SELECT name FROM products WHERE price > {n};"),
    ("Which products have a price below {n}?", "SELECT name FROM products WHERE price < {n};"),
    ("List me the orders of {p}.", "SELECT product FROM orders WHERE customer = '{p}';"),
    ("Who bought the {i}?", "SELECT customer FROM orders WHERE product = '{i}';"))


def training_pair(rng) -> tuple[str, str]:
    beginnings, topics, query = rng.choice(TOPICS)
    text = rng.choice(beginnings) + rng.choice(topics) + rng.choice((".", "?", "", "!"))
    return text[0].upper() + text[1:], query


def case(rng, held_out: bool) -> Case:
    question, query = rng.choice(HELD_OUT) if held_out else training_pair(rng)
    slots = {"c": CITIES.pick(rng, held_out), "p": PEOPLE.pick(rng, held_out),
             "i": PRODUCTS.pick(rng, held_out), "n": AMOUNTS.pick(rng, held_out)}
    return Case(question.format(**slots), query.format(**slots))
