"""Any table of measurements that a user brings, read into one form: files, headers, numbers, shapes, logs."""
