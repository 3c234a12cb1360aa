"""Tables: what each kind shows of its objects in columns, as `kubectl get` prints them."""
