//! Looks at aggregated servers: their pages, turns, places, rests and causes.

use super::*;

#[tokio::test(start_paused = true)]
async fn pages_that_are_too_large_are_asked_for_in_smaller_ones() {
    let scene = Scene::new().await;
    let (first, second) = (scene.owner("a").await, scene.owner("b").await);
    scene.keep(&[widget("of-a", &[first]), widget("of-b", &[second])]);
    *scene.server.mood.lock() = Mood::SendsMuch;
    scene
        .run(async {
            scene.delete("a", "Background").await;
            scene.delete("b", "Foreground").await;
            scene.wait(10).await;
            assert_eq!(scene.server.writes(), ["DELETE of-a", "DELETE of-b"]);
            assert!(!scene.has("b"));
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_page_that_breaks_off_is_not_asked_for_in_smaller_ones() {
    let scene = Scene::new().await;
    let owner = scene.owner("a").await;
    scene.keep(&[widget("of-a", &[owner])]);
    *scene.server.mood.lock() = Mood::BreaksOff;
    scene
        .run(async {
            scene.delete("a", "Background").await;
            scene.wait(10).await;
            assert_eq!(*scene.server.lists.lock(), 1);
            *scene.server.mood.lock() = Mood::Serves;
            scene.wait(LOOK).await;
            assert_eq!(scene.server.writes(), ["DELETE of-a"]);
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_server_that_never_shows_all_of_its_objects_holds_up_owners_for_ten_minutes_in_all() {
    let scene = Scene::new().await;
    scene.owner("a").await;
    scene.owner("b").await;
    *scene.server.mood.lock() = Mood::RefusesLists;
    scene
        .run(async {
            scene.delete("a", "Foreground").await;
            scene.wait(DELAY_MAX.as_secs() - 10).await;
            assert!(scene.has("a"));
            scene.wait(20).await;
            assert!(!scene.has("a"));
            scene.delete("b", "Orphan").await;
            scene.wait(5).await;
            assert!(!scene.has("b"), "it is no longer waited for");
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_look_that_stopped_goes_on_where_it_did() {
    let scene = Scene::new().await;
    let owner = scene.owner("a").await;
    let names: Vec<String> = (0..1_100).map(|at| format!("w{at}")).collect();
    let widgets: Vec<Value> = names.iter().map(|name| widget(name, std::slice::from_ref(&owner))).collect();
    scene.keep(&widgets);
    *scene.server.page_objects.lock() = 100;
    // What was asked to be deleted stays: looks from the start would ask for the same ones again.
    *scene.server.mood.lock() = Mood::RefusesWrites;
    scene
        .run(async {
            scene.delete("a", "Background").await;
            scene.wait(4 * LOOK).await;
        })
        .await;
    let mut writes = scene.server.writes();
    writes.dedup();
    assert_eq!(writes.len(), names.len());
}

#[tokio::test(start_paused = true)]
async fn a_silent_resource_has_its_next_turn_behind_the_others() {
    let scene = Scene::new().await;
    let owner = scene.owner("a").await;
    let gadgets = resource("gadgets", "Gadget", &VERBS);
    let widgets = resource("widgets", "Widget", &VERBS);
    scene.describe(Description::Current([gadgets, widgets].into()));
    scene.keep(&[widget("of-a", &[owner])]);
    *scene.server.mood.lock() = Mood::HidesGadgets;
    scene
        .run(async {
            scene.delete("a", "Background").await;
            scene.wait(2 * LOOK).await;
            assert_eq!(scene.server.writes(), ["DELETE of-a"]);
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn all_owners_of_a_page_are_asked_for_in_one_look() {
    let scene = Scene::new().await;
    let owner = |at: usize| format!("owner-{at:03}");
    let owners = (0..128).map(|at| widget(&owner(at), &[]));
    let of = |at: usize| [widget_owner(&owner(at), &format!("u-{}", owner(at)))];
    let dependents = (0..128).map(|at| widget(&format!("of-{at:03}"), &of(at)));
    scene.keep(&owners.chain(dependents).collect::<Vec<_>>());
    // One page of owners, and one of dependents.
    *scene.server.page_objects.lock() = 128;
    scene
        .run(async {
            scene.wait(2 * LOOK).await;
            scene.server.objects.lock().drain(..128);
            scene.wait(2 * LOOK).await;
            assert_eq!(scene.server.objects.lock().len(), 0);
        })
        .await;
}

/// The server of widgets, and this many that never answer. The owners that are asked for are at either.
struct Asked {
    fast: Arc<Remote>,
    silent: Vec<Arc<Remote>>,
}

impl Asked {
    async fn of(scene: &Scene, silent: usize) -> Asked {
        let client = scene.fixture.client();
        for version in 1..=silent {
            let name = format!("v{version}.silent.example.com");
            scene.register(&name).await;
            scene.set_available_of(&name, "True").await;
            let described = Description::Current([resource("widgets", "Widget", &VERBS)].into());
            client.aggregation().descriptions().set(&name.as_str().into(), described);
        }
        let servers = client.aggregation().all(&client.applied()).await;
        let (mut fast, silent): (Vec<_>, Vec<_>) =
            servers.into_iter().partition(|server| *server.name == *SERVICE);
        Asked { fast: fast.remove(0), silent }
    }

    /// A question to the server of widgets.
    fn quick(&self) -> Vec<(Arc<Remote>, Question)> {
        vec![(self.fast.clone(), Question::about(&self.fast.name, "Widget", "n", "w"))]
    }

    /// This many questions to each of the silent ones.
    fn slow(&self, each: usize) -> Vec<(Arc<Remote>, Question)> {
        let of = |server: &Arc<Remote>, at: usize| {
            (server.clone(), Question::about(&server.name, "Widget", "n", &at.to_string()))
        };
        self.silent.iter().flat_map(|server| (0..each).map(move |at| of(server, at))).collect()
    }
}

/// The answer to one question, which `quick` gives while `slow` still waits, with the latter.
async fn answered_first<T, F: Future<Output = T> + Unpin>(
    slow: F,
    quick: impl Future<Output = Vec<(Question, Answer)>>,
) -> (Answer, F) {
    match futures::future::select(slow, Box::pin(quick)).await {
        futures::future::Either::Left(_) => panic!("silent servers answer first"),
        futures::future::Either::Right((mut answers, slow)) => (answers.remove(0).1, slow),
    }
}

#[tokio::test(start_paused = true)]
async fn questions_to_a_silent_server_leave_places_to_others() {
    let scene = Scene::new().await;
    let (client, asked, asking) = (scene.fixture.client(), Asked::of(&scene, 1).await, Asking::new());
    let (patience, began) = (Duration::from_secs(60), client.store().elapsed());
    let slow = Box::pin(asking.ask_all(&client, asked.slow(64), patience));
    let (answer, slow) = answered_first(slow, asking.ask_all(&client, asked.quick(), patience)).await;
    assert_eq!((answer, client.store().elapsed()), (Answer::Missing, began));
    assert!(slow.await.iter().all(|(_, answer)| *answer == Answer::Unknown));
    assert_eq!(client.store().elapsed() - began, Duration::from_secs(5), "it is not asked again");
    let asking = Asking::new();
    asking.ask_all(&client, asked.slow(64), Duration::from_secs(2)).await;
    assert_eq!(client.store().elapsed() - began, Duration::from_secs(7), "a page waits no longer");
}

#[tokio::test(start_paused = true)]
async fn a_server_whose_questions_waited_for_the_places_of_others_is_not_put_to_rest() {
    let scene = Scene::new().await;
    let (client, asked, asking) = (scene.fixture.client(), Asked::of(&scene, 8).await, Asking::new());
    let patience = Duration::from_secs(2);
    {
        // They have all of the places.
        let slow = Box::pin(asking.ask_all(&client, asked.slow(4), Duration::from_secs(60)));
        let (answer, _) = answered_first(slow, asking.ask_all(&client, asked.quick(), patience)).await;
        assert_eq!(answer, Answer::Unknown);
    }
    let answers = asking.ask_all(&client, asked.quick(), patience).await;
    assert_eq!(answers[0].1, Answer::Missing);
}

#[tokio::test(start_paused = true)]
async fn an_owner_that_went_while_its_server_was_away_takes_nothing_along() {
    let scene = Scene::with_owner_elsewhere().await;
    scene
        .run(async {
            scene.wait(LOOK).await;
            *scene.server.mood.lock() = Mood::Hangs;
            scene.wait(5 * LOOK).await;
            scene.server.objects.lock().remove(0);
            *scene.server.mood.lock() = Mood::Serves;
            scene.wait(5 * LOOK).await;
            assert!(scene.server.writes().is_empty(), "it may have orphaned: {:?}", scene.server.writes());
            assert!(scene.fixture.exists("secrets", "n/here"));
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn without_a_cause_the_loop_sleeps_from_look_to_look() {
    let scene = Scene::new().await;
    scene.keep(&[widget("free", &[])]);
    let (client, polls) = (scene.fixture.client(), AtomicUsize::new(0));
    let mut work = Box::pin(run(&client, &scene.seen));
    let counted = poll_fn(|context| {
        polls.fetch_add(1, Ordering::Relaxed);
        work.as_mut().poll(context)
    });
    let steps = async {
        scene.wait(10).await;
        let before = polls.load(Ordering::Relaxed);
        scene.wait(45).await;
        let idle = polls.load(Ordering::Relaxed) - before;
        assert!(idle < 5, "{idle}");
        scene.wait(600).await;
        let lists = *scene.server.lists.lock();
        assert!((10..=12).contains(&lists), "{lists}");
        assert!(!scene.fixture.exists("_sightings", "owners"), "nothing is written where no owner was seen");
    };
    scene.fixture.beside(counted, steps).await;
}

#[tokio::test(start_paused = true)]
async fn an_owner_that_stays_is_looked_for_less_and_less_often() {
    let scene = Scene::new().await;
    let owner = scene.owner("a").await;
    let mut held = widget("held", std::slice::from_ref(&owner));
    held["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    scene.keep(&[held]);
    scene
        .run(async {
            scene.delete("a", "Foreground").await;
            scene.wait(DELAY_MAX.as_secs() - 10).await;
            let lists = *scene.server.lists.lock();
            assert!((10..50).contains(&lists), "{lists}");
            assert!(scene.has("a"));
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn an_owner_goes_at_once_when_the_server_it_waits_for_is_back() {
    let scene = Scene::new().await;
    let widgets = Description::Current([resource("widgets", "Widget", &VERBS)].into());
    scene.owner("a").await;
    scene
        .run(async {
            scene.wait(2).await;
            scene.set_available("False").await;
            scene.describe(Description::Stale);
            scene.delete("a", "Orphan").await;
            scene.wait(300).await;
            assert!(scene.has("a"));
            scene.set_available("True").await;
            scene.describe(widgets);
            scene.wait(3).await;
            assert!(!scene.has("a"));
        })
        .await;
}

/// A look that found `undecided` dependents.
fn found(undecided: usize, partial: Option<&'static str>) -> Outcome {
    let mut outcome = Outcome::default();
    outcome.undecided = undecided;
    outcome.undecided_one = (undecided > 0).then(|| "widgets n/w".to_owned());
    outcome.partial = partial;
    outcome
}

#[tokio::test]
async fn dependents_that_nobody_can_decide_on_are_counted_until_a_whole_look_finds_none() {
    let scene = Scene::new().await;
    let client = scene.fixture.client();
    let target = (client.aggregation().all(&client.applied()).await.remove(0), None);
    let (name, mut memory) = (target.0.name.clone(), Memory::new());
    for (looked, expected) in [
        (found(3, None), 3),
        (found(0, Some("it does not answer")), 3),
        (found(5, Some("a look at it goes on")), 5),
        (found(2, None), 2),
        (found(0, None), 0),
        (found(7, None), 7),
    ] {
        let mut outcome = looked;
        memory.note_undecided_at(&name, &mut outcome);
        memory.note_undecided(std::slice::from_ref(&target), Moment(Duration::ZERO));
        assert_eq!(memory.undecided_all.count(), expected);
    }
    memory.note_undecided(&[], Moment(Duration::ZERO));
    assert_eq!(memory.undecided_all.count(), 0, "it is not looked at any more");
}

#[test]
fn a_look_is_followed_by_a_rest_in_proportion() {
    let (holds, mut rhythm) = (super::super::Holds::default(), Rhythm::default());
    rhythm.end(Duration::from_secs(100), Duration::from_secs(110));
    assert_eq!((rhythm.due, rhythm.rested), (Duration::from_secs(170), Duration::from_secs(150)));
    assert_eq!(rhythm.next(&holds), rhythm.due);
    rhythm.end(Duration::from_secs(200), Duration::from_secs(200));
    assert_eq!(rhythm.rested, Duration::from_secs(200) + SOON);
}
