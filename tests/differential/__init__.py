"""Random requests, the same to the embedded server and to the real kube-apiserver, and what they answer compared.

steps.py              a request as data, with references to earlier answers
subjects.py           the kinds, and valid objects of each
edge_values.py        values that nobody expects, and objects with such values put in
invalid_requests.py   requests that no client sends
generate.py           a seed into a sequence of steps
servers.py            the two servers, and steps carried out on them
normalise.py          answers brought into a form in which the same is equal
known_differences.py  differences that are known and meant, each with its reason
compare.py            a sequence run on both, up to the first difference
shrinking.py          the shortest sequence that still differs
"""
