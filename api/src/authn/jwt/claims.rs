//! From the claims of a verified token to a user, by the rules of the configuration.
//!
//! Owns the order of the rules and the words of a refusal, which are the reference's. Distributed claims are not
//! followed: a token cannot make this server ask another one.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde_json::{Map, Value, json};

use super::super::User;
use super::token::JwtError;
use orch_rules::expression::{
    CompileError, EvaluationError, Expression, ObjectTable, Place, Type, Variable, Wanted,
};

/// The variable of claims.
static CLAIMS: LazyLock<Place> =
    LazyLock::new(|| Place::new(&[("claims", Type::map(Type::String, Type::Any))], ObjectTable::default()));
/// The variable of the user that the claims make.
static USER: LazyLock<Place> = LazyLock::new(|| {
    let texts = || Type::list(Type::String);
    let members = [
        ("username", Type::String),
        ("uid", Type::String),
        ("groups", texts()),
        ("extra", Type::map(Type::String, texts())),
    ];
    Place::new(&[("user", Type::object("UserInfo"))], ObjectTable::default().with("UserInfo", &members))
});

/// Compiles an expression over `claims`.
///
/// # Errors
/// `source` is no expression, or has another type than `wanted`.
pub fn compile_claims(source: &str, wanted: Wanted) -> Result<Expression, CompileError> {
    Expression::compile(source, &CLAIMS, wanted)
}

/// Compiles a condition over `user`.
///
/// # Errors
/// `source` is no condition.
pub fn compile_user(source: &str) -> Result<Expression, CompileError> {
    Expression::compile(source, &USER, Wanted::Bool)
}

/// Where a part of a user comes from.
#[derive(Debug)]
pub enum Mapping {
    /// A claim, behind a prefix that may be empty.
    Claim {
        /// Name of the claim.
        name: String,
        /// The prefix.
        prefix: String,
    },
    /// The value of an expression.
    Expression(Box<Expression>),
}

/// Rules that claims must satisfy.
#[derive(Debug)]
pub enum ClaimRule {
    /// A claim has this text.
    Value {
        /// Name of the claim.
        claim: String,
        /// The text.
        value: String,
    },
    /// A condition holds.
    Condition {
        /// The condition.
        condition: Box<Expression>,
        /// Told where it does not hold; may be empty.
        message: String,
    },
}

/// Rules that a user must satisfy.
#[derive(Debug)]
pub struct UserRule {
    /// The condition.
    pub condition: Expression,
    /// Told where it does not hold; may be empty.
    pub message: String,
}

/// From claims to a user.
#[derive(Debug)]
pub struct Rules {
    /// The user's name.
    pub username: Mapping,
    /// The groups.
    pub groups: Option<Mapping>,
    /// The uid.
    pub uid: Option<Mapping>,
    /// Further attributes, by key.
    pub extra: Vec<(String, Expression)>,
    /// Rules that claims must satisfy.
    pub claims: Vec<ClaimRule>,
    /// Rules that the user must satisfy.
    pub users: Vec<UserRule>,
}

impl Rules {
    /// The user of `claims`.
    pub(super) fn user(&self, claims: Map<String, Value>) -> Result<User, JwtError> {
        let claims = Value::Object(claims);
        let variable = Variable::new("claims", &claims);
        let name = self.username(&claims, &variable)?;
        let groups = self.groups(&claims, &variable)?;
        let uid = self.uid(&claims, &variable)?;
        let user = User { name, uid, groups, extra: self.extra(&variable)? };
        self.check_claims(&claims, &variable)?;
        self.check_user(&user)?;
        Ok(user.authenticated())
    }

    fn username(&self, claims: &Value, variable: &Variable) -> Result<String, JwtError> {
        let name = match &self.username {
            Mapping::Expression(expression) => {
                let value = expression.text(&[variable]);
                let value = value.map_err(|error| evaluating("username claim", &error))?;
                let reason = "error evaluating username claim expression: username claim expression must return a string";
                value.ok_or_else(|| refused(reason))?
            }
            Mapping::Claim { name, prefix } => {
                let value = text_of(claims, name)
                    .map_err(|fault| refused(format!("parse username claims {name:?}: {fault}")))?;
                if name == "email" {
                    check_email(claims)?;
                }
                format!("{prefix}{value}")
            }
        };
        if name.is_empty() { Err(refused("the user name is empty")) } else { Ok(name) }
    }

    fn groups(&self, claims: &Value, variable: &Variable) -> Result<Vec<String>, JwtError> {
        match &self.groups {
            None => Ok(Vec::new()),
            Some(Mapping::Expression(expression)) => {
                let values = expression.texts(&[variable]);
                let values = values.map_err(|error| evaluating("group claim", &error))?;
                values.ok_or_else(|| {
                    refused("error evaluating group claim expression: expression must return a string or a list of strings")
                })
            }
            Some(Mapping::Claim { name, prefix }) => {
                let fault = || {
                    refused(format!("parse groups claim {name:?}: a string or a list of strings is expected"))
                };
                let groups: Vec<&str> = match claims.get(name) {
                    None => Vec::new(),
                    Some(Value::String(one)) => vec![one],
                    Some(Value::Array(many)) => {
                        many.iter().map(|group| group.as_str()).collect::<Option<_>>().ok_or_else(fault)?
                    }
                    Some(_) => return Err(fault()),
                };
                Ok(groups.into_iter().map(|group| format!("{prefix}{group}")).collect())
            }
        }
    }

    fn uid(&self, claims: &Value, variable: &Variable) -> Result<String, JwtError> {
        match &self.uid {
            None => Ok(String::new()),
            Some(Mapping::Claim { name, .. }) => {
                text_of(claims, name).map_err(|fault| refused(format!("parse uid claim {name:?}: {fault}")))
            }
            Some(Mapping::Expression(expression)) => {
                let value = expression.text(&[variable]).map_err(|error| evaluating("uid claim", &error))?;
                let reason =
                    "error evaluating uid claim expression: uid claim expression must return a string";
                value.ok_or_else(|| refused(reason))
            }
        }
    }

    fn extra(&self, variable: &Variable) -> Result<BTreeMap<String, Vec<String>>, JwtError> {
        let mut extra = BTreeMap::new();
        for (key, expression) in &self.extra {
            let values = expression.texts(&[variable]).map_err(|error| evaluating("extra claim", &error))?;
            let values = values.ok_or_else(|| {
                let source = expression.source();
                refused(format!(
                    "error evaluating extra claim expression: {source}: expression must return a string or a list of strings"
                ))
            })?;
            if !values.is_empty() {
                extra.insert(key.clone(), values);
            }
        }
        Ok(extra)
    }

    fn check_claims(&self, claims: &Value, variable: &Variable) -> Result<(), JwtError> {
        for rule in &self.claims {
            match rule {
                ClaimRule::Value { claim, value } => {
                    if claims.get(claim).is_none() {
                        return Err(refused(format!("required claim {claim} not present in ID token")));
                    }
                    let found = text_of(claims, claim)
                        .map_err(|fault| refused(format!("parse claim {claim}: {fault}")))?;
                    if found != *value {
                        return Err(refused(format!("required claim {claim} value does not match")));
                    }
                }
                ClaimRule::Condition { condition, message } => {
                    check_condition(condition, message, variable, "claim validation expression")?;
                }
            }
        }
        Ok(())
    }

    fn check_user(&self, user: &User) -> Result<(), JwtError> {
        if self.users.is_empty() {
            return Ok(());
        }
        let document = json!({
            "username": user.name, "uid": user.uid, "groups": user.groups, "extra": user.extra,
        });
        let variable = Variable::new("user", &document);
        for UserRule { condition, message } in &self.users {
            check_condition(condition, message, &variable, "user info validation rule")?;
        }
        Ok(())
    }
}

fn check_condition(
    condition: &Expression,
    message: &str,
    variable: &Variable,
    place: &str,
) -> Result<(), JwtError> {
    let holds = condition.holds(&[variable]);
    let holds = holds.map_err(|error| refused(format!("error evaluating {place}: {error}")))?;
    if holds {
        return Ok(());
    }
    let source = condition.source();
    Err(refused(format!("error evaluating {place}: validation expression '{source}' failed: {message}")))
}

/// An address that its issuer has not verified names nobody, where the issuer says so.
fn check_email(claims: &Value) -> Result<(), JwtError> {
    match claims.get("email_verified") {
        None | Some(Value::Bool(true)) => Ok(()),
        Some(Value::Bool(false)) => Err(refused("email not verified")),
        Some(_) => Err(refused("parse 'email_verified' claim: a boolean is expected")),
    }
}

fn text_of(claims: &Value, name: &str) -> Result<String, &'static str> {
    let value = claims.get(name).ok_or("claim not present")?;
    value.as_str().map(str::to_owned).ok_or("a string is expected")
}

fn refused(reason: impl Into<String>) -> JwtError {
    JwtError::Claims(reason.into())
}

fn evaluating(place: &str, error: &EvaluationError) -> JwtError {
    refused(format!("error evaluating {place} expression: {error}"))
}
