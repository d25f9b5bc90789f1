//! Compact forms of the API's objects: interned labels, quantities as integers, compiled selectors.
