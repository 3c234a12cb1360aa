"""What one thing crosses on its way through the source: the trips of a volume's life, to look at.

    python -m tests.trips            every trip: its calls, functions, crossings and files, beside earlier ones
    python -m tests.trips claim      one of them, with the functions that ran in each file

A trip starts with what a user or a controller asks for, while the program stands by, and ends once nothing is left to
do for it. A call counts when a function runs on behalf of the program. The API server stands in the same process, and
does not count; nor do the test, what it asks the API server for, and the driver.
"""
