"""A question about a table to the SQL query that answers it."""

from tasks.common import CITIES, PEOPLE, PRODUCTS, Case, Split, number_split

NAME = "sql"

AMOUNTS = number_split(10, 990)

# (question, query): {c} a city, {p} a person, {i} a product, {n} a number
QUERIES = Split(
    [("Which customers live in {c}?", "SELECT name FROM customers WHERE city = '{c}';"),
     ("Show the customers from {c}.", "SELECT name FROM customers WHERE city = '{c}';"),
     ("List all customers in {c}.", "SELECT name FROM customers WHERE city = '{c}';"),
     ("Who lives in {c}?", "SELECT name FROM customers WHERE city = '{c}';"),
     ("How many customers are in {c}?", "SELECT COUNT(*) FROM customers WHERE city = '{c}';"),
     ("Count the customers from {c}.", "SELECT COUNT(*) FROM customers WHERE city = '{c}';"),
     ("What is the number of customers in {c}?",
      "SELECT COUNT(*) FROM customers WHERE city = '{c}';"),
     ("What does a {i} cost?", "SELECT price FROM products WHERE name = '{i}';"),
     ("What is the price of the {i}?", "SELECT price FROM products WHERE name = '{i}';"),
     ("How much is a {i}?", "SELECT price FROM products WHERE name = '{i}';"),
     ("Which products cost more than {n}?", "SELECT name FROM products WHERE price > {n};"),
     ("Show products with a price above {n}.", "SELECT name FROM products WHERE price > {n};"),
     ("List the products over {n}.", "SELECT name FROM products WHERE price > {n};"),
     ("Which products cost less than {n}?", "SELECT name FROM products WHERE price < {n};"),
     ("Show products with a price below {n}.", "SELECT name FROM products WHERE price < {n};"),
     ("List the products under {n}.", "SELECT name FROM products WHERE price < {n};"),
     ("What has {p} ordered?", "SELECT product FROM orders WHERE customer = '{p}';"),
     ("Show the orders of {p}.", "SELECT product FROM orders WHERE customer = '{p}';"),
     ("Which products did {p} order?", "SELECT product FROM orders WHERE customer = '{p}';"),
     ("Who ordered a {i}?", "SELECT customer FROM orders WHERE product = '{i}';"),
     ("Show everybody who ordered the {i}.",
      "SELECT customer FROM orders WHERE product = '{i}';"),
     ("List those who bought a {i}.", "SELECT customer FROM orders WHERE product = '{i}';")],
    [("Show me who lives in {c}.", "SELECT name FROM customers WHERE city = '{c}';"),
     ("List the customers from {c}.", "SELECT name FROM customers WHERE city = '{c}';"),
     ("Count all customers in {c}.", "SELECT COUNT(*) FROM customers WHERE city = '{c}';"),
     ("What is the price of a {i}?", "SELECT price FROM products WHERE name = '{i}';"),
     ("Show the products that cost more than {n}.",
      "SELECT name FROM products WHERE price > {n};"),
     ("Which products have a price below {n}?", "SELECT name FROM products WHERE price < {n};"),
     ("List the orders of {p}.", "SELECT product FROM orders WHERE customer = '{p}';"),
     ("Who bought the {i}?", "SELECT customer FROM orders WHERE product = '{i}';")])


def case(rng, held_out: bool) -> Case:
    question, query = QUERIES.pick(rng, held_out)
    slots = {"c": CITIES.pick(rng, held_out), "p": PEOPLE.pick(rng, held_out),
             "i": PRODUCTS.pick(rng, held_out), "n": AMOUNTS.pick(rng, held_out)}
    return Case(question.format(**slots), query.format(**slots))
