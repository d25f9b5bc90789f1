//! The user of a request, as credentials prove it.

/// The user of requests without credentials.
pub(crate) const ANONYMOUS: &str = "system:anonymous";
/// Group of everyone who is somebody.
pub(crate) const AUTHENTICATED: &str = "system:authenticated";
/// Group of the anonymous.
pub(crate) const UNAUTHENTICATED: &str = "system:unauthenticated";
/// Group that may do everything.
pub(crate) const MASTERS: &str = "system:masters";

/// A user.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct User {
    /// The user's name.
    pub name: String,
    /// The user's uid; empty where there is none.
    pub uid: String,
    /// Groups that the user is in.
    pub groups: Vec<String>,
    /// More about the user, by key.
    pub extra: Vec<(String, Vec<String>)>,
}

impl User {
    /// The user of requests without credentials.
    pub fn anonymous() -> User {
        User { name: ANONYMOUS.to_owned(), groups: vec![UNAUTHENTICATED.to_owned()], ..User::default() }
    }

    /// Bytes of the texts.
    pub(crate) fn bytes(&self) -> usize {
        let texts = |texts: &[String]| texts.iter().map(String::len).sum::<usize>();
        let extra = self.extra.iter().map(|(key, values)| key.len() + texts(values));
        self.name.len() + self.uid.len() + texts(&self.groups) + extra.sum::<usize>()
    }

    /// The user with the group of everyone who is somebody.
    #[must_use]
    pub fn authenticated(mut self) -> User {
        let is_there = |group: &String| group == AUTHENTICATED || group == UNAUTHENTICATED;
        if !self.groups.iter().any(is_there) {
            self.groups.push(AUTHENTICATED.to_owned());
        }
        self
    }
}
