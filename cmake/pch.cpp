// Nothing: a precompiled header needs a source to belong to.
