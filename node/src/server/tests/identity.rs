//! Connections end with the certificate that they were made with, and those of front proxies are no user's.

use super::*;

fn client(authority: &Authority, name: &str) -> Pair {
    let leaf = Leaf {
        common_name: name.to_owned(),
        organization: None,
        hosts: Vec::new(),
        purpose: Purpose::Client,
    };
    authority.issue(&leaf, OffsetDateTime::now_utc()).unwrap()
}

#[tokio::test]
async fn a_revoked_certificate_ends_its_connections_and_watches_and_no_others() {
    let fixture = start();
    let (ann, bob) = (client(&fixture.authority, "ann"), client(&fixture.authority, "bob"));
    for protocol in [&b"h2"[..], b"http/1.1"] {
        assert_eq!(fixture.ask(Some(&ann), protocol).await, "ann false");
    }
    let (mut of_ann, mut of_bob) = (fixture.two(Some(&ann)).await, fixture.two(Some(&bob)).await);
    let mut idle = fixture.one(Some(&ann)).await;
    assert_eq!(text(idle.send_request(request("/")).await.unwrap()).await, "ann false");
    let watch = |mut sender: http2::SendRequest<Empty<Bytes>>| async move {
        sender.send_request(request("https://localhost/watch")).await.unwrap().into_body()
    };
    let (mut watch_of_ann, mut watch_of_bob) = (watch(of_ann.clone()).await, watch(of_bob.clone()).await);
    fixture.revoke(&fixture.authority, &ann);
    let ended = async { while let Some(Ok(_)) = watch_of_ann.frame().await {} };
    tokio::time::timeout(PATIENCE, ended).await.expect("the watch ends");
    let refused = async {
        while of_ann.send_request(request("https://localhost/")).await.is_ok() {}
        while idle.send_request(request("/")).await.is_ok() {}
    };
    tokio::time::timeout(PATIENCE, refused).await.expect("no request is taken");
    for protocol in [&b"h2"[..], b"http/1.1"] {
        assert_eq!(fixture.ask(Some(&ann), protocol).await, "bad false", "a new connection is nobody's");
    }
    watch_of_bob.frame().await.unwrap().unwrap();
    drop(watch_of_bob);
    assert_eq!(text(of_bob.send_request(request("https://localhost/")).await.unwrap()).await, "bob false");
}

#[tokio::test]
async fn a_reload_that_revokes_nobody_of_a_connection_leaves_it_alone() {
    let fixture = start();
    let (ann, bob) = (client(&fixture.authority, "ann"), client(&fixture.authority, "bob"));
    let mut of_ann = fixture.two(Some(&ann)).await;
    let mut of_nobody = fixture.two(None).await;
    for _ in 0..3 {
        fixture.revoke(&fixture.authority, &bob);
        assert_eq!(
            text(of_ann.send_request(request("https://localhost/")).await.unwrap()).await,
            "ann false"
        );
        assert_eq!(
            text(of_nobody.send_request(request("https://localhost/")).await.unwrap()).await,
            "none false"
        );
    }
}

#[tokio::test]
async fn a_front_proxy_is_told_by_its_authority_and_name_and_revoked_likewise() {
    let fixture = start();
    let front = client(&fixture.proxies, "front");
    for (pair, expected) in [
        (&front, "true"),
        (&client(&fixture.proxies, "other"), "false"),
        (&client(&fixture.authority, "front"), "false"),
    ] {
        let mut sender = fixture.two(Some(pair)).await;
        assert_eq!(
            text(sender.send_request(request("https://localhost/proxy")).await.unwrap()).await,
            expected
        );
    }
    let mut sender = fixture.two(Some(&front)).await;
    assert_eq!(text(sender.send_request(request("https://localhost/proxy")).await.unwrap()).await, "true");
    fixture.revoke(&fixture.proxies, &front);
    let refused = async { while sender.send_request(request("https://localhost/proxy")).await.is_ok() {} };
    tokio::time::timeout(PATIENCE, refused).await.expect("its connection ends");
}

#[tokio::test]
async fn connections_of_a_front_proxy_are_charged_to_none_of_its_users() {
    let fixture = start_with(|server| server.places = places::Places::new(4));
    let front = client(&fixture.proxies, "front");
    let of = |user: &str| {
        let mut request = request("/");
        request.headers_mut().insert("user", user.parse().unwrap());
        request
    };
    // Ann has more requests by the proxy's connections than bob has connections.
    let mut proxied = Vec::new();
    for _ in 0..2 {
        let mut sender = fixture.one(Some(&front)).await;
        assert_eq!(text(sender.send_request(of("ann")).await.unwrap()).await, "bad false");
        proxied.push(sender);
    }
    for name in ["bob", "bob", "bob"] {
        let pair = client(&fixture.authority, name);
        let mut sender = tokio::time::timeout(PATIENCE, fixture.one(Some(&pair))).await.expect("a place");
        assert_eq!(text(sender.send_request(request("/")).await.unwrap()).await, "bob false");
    }
    for sender in &mut proxied {
        assert_eq!(
            text(sender.send_request(of("tom")).await.unwrap()).await,
            "bad false",
            "it kept its place"
        );
    }
}

/// Requests that came with certificates of between two and four days left.
fn observed() -> u64 {
    let page = crate::metrics::text();
    let within = |bound: &str| -> u64 {
        let series = format!("apiserver_client_certificate_expiration_seconds_bucket{{le=\"{bound}\"}} ");
        page.lines().find_map(|line| line.strip_prefix(&series)).unwrap().parse().unwrap()
    };
    within("345600") - within("172800")
}

#[tokio::test]
async fn each_request_of_a_connection_observes_the_life_of_its_certificate_whoever_signed_that() {
    let fixture = start();
    // Of a year three days are left, which no other test has.
    let then = OffsetDateTime::now_utc() - Duration::days(362);
    let own = fixture.authority.issue(&admin_leaf(), then).unwrap();
    let foreign = Authority::create("other", then).unwrap().issue(&admin_leaf(), then).unwrap();
    for pair in [own, foreign] {
        let before = observed();
        let mut sender = fixture.two(Some(&pair)).await;
        for _ in 0..3 {
            sender.send_request(request("https://localhost/")).await.unwrap();
        }
        assert_eq!(observed() - before, 3);
    }
    let front =
        fixture.proxies.issue(&Leaf { common_name: "front".to_owned(), ..admin_leaf() }, then).unwrap();
    let before = observed();
    fixture.ask(Some(&front), b"h2").await;
    assert_eq!(observed(), before, "it stands for the users of its requests");
}
