"""The eight things that the demo's adapters do.

Each task makes cases, a question and the one right answer, from templates and slot values. Those of
the held-out cases are not among those of the training cases: an adapter that only remembered what it
was shown fails. `TASKS` has them by the name of their adapter.
"""

from tasks import (contractions, convert, dates, extract, numbers, routing, sentiment, sql)

TASKS = {task.NAME: task for task in
         (contractions, convert, dates, extract, numbers, routing, sentiment, sql)}
