"""The same points over time, and beside a reference that a site keeps: did this machine get slower?"""
