"""What the watches of a run were, and etcd's history: with the records of the clients, all that a judgement needs. It is kept in
the folder of the report, so that anyone can judge again, by a better checker too."""
import os
import pickle

NAME = "truth.pickle"


def keep(jobs, folder):
    """jobs: what fleet.check_records() takes."""
    with open(folder / NAME, "wb") as f:
        pickle.dump([(os.path.relpath(record, folder), *rest) for record, *rest in jobs], f)


def load(folder):
    with open(folder / NAME, "rb") as f:
        return [(str(folder / record), *rest) for record, *rest in pickle.load(f)]
