"""Tables, figures and the page, from the cells' JSON alone."""
