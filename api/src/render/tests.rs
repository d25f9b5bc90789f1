//! Every representation of small objects.
