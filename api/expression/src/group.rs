//! Expressions of one place that share variables: the validations of a policy, for example.
//!
//! Owns the way from named expressions to [`LazyVariables`], and [`Group`], the evaluations that read them.

use std::collections::HashMap;
use std::fmt;

use crate::evaluate::{Budget, Lazies, LazySource, Limits, Parts};
use crate::nesting::nesting;
use crate::program::Program;
use crate::{EvaluationError, NESTING_MAX, Val};

/// Named expressions, each of which may read those before it.
pub struct LazyVariables {
    /// The place of the object whose members they are.
    place: usize,
    by_name: HashMap<Box<str>, usize>,
    /// A program, or the reason why it did not compile.
    programs: Vec<Result<Program, String>>,
    /// Levels of each program.
    levels: Vec<usize>,
}

impl fmt::Debug for LazyVariables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LazyVariables").field("programs", &self.programs).finish_non_exhaustive()
    }
}

impl LazyVariables {
    /// No variables, which would be members of the variable at `place`.
    pub fn at(place: usize) -> LazyVariables {
        LazyVariables { place, by_name: HashMap::new(), programs: Vec::new(), levels: Vec::new() }
    }

    /// Adds one. Of two with a name, the last counts.
    pub fn add(&mut self, name: &str, program: Result<Program, String>) {
        let levels = program.as_ref().map_or(0, |program| nesting(program.source()).unwrap_or(NESTING_MAX));
        self.by_name.insert(name.into(), self.programs.len());
        self.programs.push(program);
        self.levels.push(levels);
    }

    /// Number of variables.
    pub fn len(&self) -> usize {
        self.programs.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.programs.is_empty()
    }
}

impl LazySource for LazyVariables {
    fn place(&self) -> usize {
        self.place
    }

    fn count(&self) -> usize {
        self.programs.len()
    }

    fn find(&self, name: &str) -> Option<usize> {
        self.by_name.get(name).copied()
    }

    fn parts(&self, at: usize) -> Result<Parts<'_>, &str> {
        match &self.programs[at] {
            Ok(program) => Ok(program.parts()),
            Err(reason) => Err(reason),
        }
    }

    fn levels(&self, at: usize) -> usize {
        self.levels[at]
    }
}

/// Evaluations over the same values, which share what they have read of variables.
pub struct Group<'v> {
    values: &'v [Option<Val<'v>>],
    lazies: Option<Lazies<'v>>,
}

impl fmt::Debug for Group<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Group").finish_non_exhaustive()
    }
}

impl<'v> Group<'v> {
    /// Evaluations over `values`, in the order of the scope, and `variables`, of which none was read yet.
    pub fn new(values: &'v [Option<Val<'v>>], variables: &'v LazyVariables) -> Group<'v> {
        Group { values, lazies: Some(Lazies::of(variables)) }
    }

    /// The value of `program`. The cost of variables that it is the first to read is taken from `budget` before its own. An
    /// evaluation that ends with a question about rights costs nothing but its variables: it has to be made again.
    ///
    /// # Errors
    /// It has no value, or costs more than `limits`.
    pub fn evaluate(
        &mut self,
        program: &'v Program,
        limits: Limits,
        budget: &mut Budget,
    ) -> Result<Val<'v>, EvaluationError> {
        let (value, spent, lazies) = program.run(self.values, limits, self.lazies.take());
        self.lazies = lazies;
        if let Some((cost, steps)) = self.lazies.as_mut().map(Lazies::take_spent) {
            budget.spend(cost, steps);
        }
        let (cost, steps) = spent;
        let is_undecided = matches!(value, Err(EvaluationError::Undecided(_)));
        budget.spend(if is_undecided { 0 } else { cost }, steps);
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::environments::{AdmissionTypes, AdmissionVariable};
    use crate::{Allowance, Ast, Libraries, PatternLimits};

    /// Variables by name and text, and what an expression over `object` makes of them.
    struct Case {
        types: AdmissionTypes,
        variables: LazyVariables,
    }

    fn program(types: &AdmissionTypes, source: &str) -> Program {
        let scope = types.scope(&AdmissionVariable::ALL, Libraries::default());
        let mut charge = Allowance::of(u64::MAX);
        let ast = Ast::check(source, &scope, &mut charge).unwrap();
        let ast = ast.unwrap_or_else(|error| panic!("{source}: {error}"));
        ast.program(PatternLimits::STANDING, &mut charge).unwrap()
    }

    fn case(variables: &[(&str, &str)]) -> Case {
        let mut case = Case {
            types: AdmissionTypes::of("brand"),
            variables: LazyVariables::at(AdmissionVariable::Variables.place()),
        };
        for (name, source) in variables {
            let program = program(&case.types, source);
            let of = program.result().clone();
            case.types = case.types.clone().with_policy_variable(name, &of);
            case.variables.add(name, Ok(program));
        }
        case
    }

    /// The values or faults of `sources` in one group, and the cost of each.
    fn evaluate(case: &Case, sources: &[&str]) -> Vec<(String, u64)> {
        let programs: Vec<Program> = sources.iter().map(|source| program(&case.types, source)).collect();
        let object = orch_schema::json!({"n": 3, "t": "x", "l": [1, 2, 3]});
        let mut values: Vec<Option<Val<'_>>> = vec![None; AdmissionVariable::ALL.len()];
        values[AdmissionVariable::Object.place()] = Some(Val::json(&object));
        let mut group = Group::new(&values, &case.variables);
        let one = |program| {
            let mut budget = Budget::of(10_000_000);
            let value = group.evaluate(program, Limits::CALL, &mut budget);
            let told = value.map_or_else(|error| format!("error: {error}"), |value| value.to_string());
            (told, 10_000_000 - budget.left())
        };
        programs.iter().map(one).collect()
    }

    #[test]
    fn a_variable_is_evaluated_where_it_is_first_read_and_costs_once() {
        let case = case(&[("n", "object.n + 1"), ("twice", "variables.n * 2"), ("broken", "object.none")]);
        // object, n, +: 3; variables, n, *: 3; variables, twice, ==: the same cost as of any object.
        let found = evaluate(&case, &["variables.twice == 8", "variables.twice == 8", "variables.n == 4"]);
        assert_eq!(found[0].0, "true");
        assert_eq!(found[0].1 - found[1].1, 6, "{found:?}");
        assert_eq!(found[1], found[2].clone());
        let found =
            evaluate(&case, &["true || variables.broken == 1", "variables.broken == 1", "has(variables.n)"]);
        assert_eq!(found[0].0, "true", "it is not read");
        assert_eq!(found[1].0, r#"error: composited variable "broken" fails to evaluate: no such key: none"#);
        assert_eq!(found[2].0, "true");
    }

    #[test]
    fn faults_name_each_variable_on_their_way() {
        let case = case(&[("a", "int(object.t)"), ("b", "variables.a * 2"), ("c", "variables.b < 10")]);
        let found = evaluate(&case, &["variables.c", "variables.?a.orValue(1) == 1"]);
        assert_eq!(
            found[0].0,
            "error: composited variable \"c\" fails to evaluate: composited variable \"b\" fails to evaluate: \
             composited variable \"a\" fails to evaluate: type conversion error from 'string' to 'int'"
        );
        assert!(found[1].0.starts_with("error: composited variable \"a\""), "{found:?}");
    }

    #[test]
    fn variables_nest_to_a_bound() {
        let names: Vec<String> = (0..400).map(|at| format!("v{at}")).collect();
        let sources: Vec<String> = std::iter::once("1".to_owned())
            .chain(names.iter().map(|name| format!("variables.{name} + 1")))
            .collect();
        let pairs: Vec<(&str, &str)> =
            names.iter().map(String::as_str).zip(sources.iter().map(String::as_str)).collect();
        let case = case(&pairs);
        let found = evaluate(&case, &["variables.v399 == 400"]);
        assert!(found[0].0.contains("is read behind too many others"), "{found:?}");
        let found = evaluate(&case, &["variables.v99 == 100", "variables.v180 == 181"]);
        assert_eq!((&*found[0].0, &*found[1].0), ("true", "true"), "what is known is not evaluated again");
    }

    #[test]
    fn values_of_variables_are_lent() {
        let case = case(&[("l", "object.l"), ("mapped", "variables.l.map(x, x * 2)")]);
        let found = evaluate(&case, &["variables.mapped.exists(x, x == 6) && size(variables.l) == 3"]);
        assert_eq!(found[0].0, "true");
    }
}
