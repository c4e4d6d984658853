"""What more ranks would give: forms of a step's time, averaged by how they did on other curves, and an interval."""
