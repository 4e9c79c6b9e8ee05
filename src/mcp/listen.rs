//! Subscriptions (`subscriptions/listen`): what a client of the 2026-07-28 era is told without asking again.
//!
//! Purpose: `notifications/tasks` for tasks by their ids, `notifications/tools/list_changed` where the policy can be
//! another one, and `notifications/job` for clients that declare the extension [`JOBS`]. rmcp's filter knows neither, and its sink refuses both, so that the whole exchange is made
//! here: the acknowledgement, what is told, the end. Messages of the log stay on the stream of the request that
//! opted into them, as the protocol wants it. Inputs: a request with its parameters as they were sent
//! ([`whole`]), and the registry of jobs. Called by `wire.rs` and `server.rs`.

use std::sync::Arc;

use http::request::Parts;
use rmcp::model::{
    ClientCapabilities, ClientRequest, CustomNotification, CustomRequest, CustomResult, ErrorCode, ErrorData,
    ExtensionCapabilities, JsonObject, NotificationMetaObject, RequestId, ServerNotification,
    SubscriptionFilter, SubscriptionsListenResultMeta, TASKS_EXTENSION_ID, TaskStatusNotification,
    TaskStatusNotificationParams, ToolListChangedNotification,
};
use rmcp::service::{Peer, RequestContext, RoleServer};
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;

use super::channel::Closed;
use super::in_flight::Asked;
use super::job_end::{self, End};
use super::runner::Runner;
use super::server::Server;
use super::{level, push};
use crate::run::jobs::Job;

/// The method.
pub(super) const METHOD: &str = "subscriptions/listen";
/// Our extension, and its key in a filter: one event each for the start and the end of every job.
pub(super) const JOBS: &str = "dev.cofferdam/jobs";
/// Subscriptions of one connection at the same time: each is a request in flight.
pub(super) const MOST: usize = 16;
/// Task ids in one of them.
const MOST_TASKS: usize = 256;

/// Gives a request to listen all of its parameters back; any other request stays as it is.
pub(super) fn whole(request: &mut ClientRequest, message: &[u8]) {
    if matches!(request, ClientRequest::SubscriptionsListenRequest(_))
        && let Ok(all) = serde_json::from_slice::<CustomRequest>(message)
    {
        *request = ClientRequest::CustomRequest(all);
    }
    // What cannot be read again stays as it is, and is then a method that nobody serves.
}

/// Beside a request that came over HTTP: its filter is packed.
#[derive(Debug, Clone)]
pub(super) struct Packed;

/// The body of a request to listen with its filter in an array. rmcp, which reads the messages of HTTP itself,
/// drops what it does not know of a filter, and hands on as it is what is none.
pub(super) fn packed(body: &[u8]) -> Option<Vec<u8>> {
    let mut message: Value = serde_json::from_slice(body).ok()?;
    let filter = message.get_mut("params")?.get_mut("notifications")?;
    *filter = Value::Array(vec![filter.take()]);
    serde_json::to_vec(&message).ok()
}

/// What a client wants to be told of.
#[derive(Debug, Default, PartialEq, Eq)]
struct Wanted {
    tasks: Option<Vec<String>>,
    jobs: bool,
    /// Whenever the tools are others.
    tools: bool,
}

impl Wanted {
    fn read(params: Option<&Value>, packed: bool) -> Result<Self, ErrorData> {
        let wrong = |what: &str| ErrorData::invalid_params(format!("params of {METHOD}: {what}"), None);
        let filter = params.and_then(|params| params.get("notifications"));
        let filter = if packed { filter.and_then(|packed| packed.get(0)) } else { filter };
        let filter = filter.filter(|filter| filter.is_object());
        let filter = filter.ok_or_else(|| wrong("notifications must be an object"))?;
        let standard = serde_json::from_value::<SubscriptionFilter>(filter.clone())
            .map_err(|error| wrong(&format!("notifications: {error}")))?;
        let tasks = match filter.get("taskIds") {
            None | Some(Value::Null) => None,
            Some(ids) => {
                let ids = serde_json::from_value::<Vec<String>>(ids.clone());
                let ids = ids.map_err(|_| wrong("notifications.taskIds must be an array of strings"))?;
                if ids.len() > MOST_TASKS {
                    return Err(wrong(&format!("notifications.taskIds has more than {MOST_TASKS} elements")));
                }
                Some(ids)
            }
        };
        let jobs = match filter.get(JOBS) {
            None | Some(Value::Null) => false,
            Some(Value::Bool(wanted)) => *wanted,
            Some(_) => return Err(wrong(&format!("notifications[\"{JOBS}\"] must be true or false"))),
        };
        Ok(Self { tasks, jobs, tools: standard.tools_list_changed == Some(true) })
    }

    /// Whoever wants notifications of an extension has to declare it.
    fn declared(&self, declared: Option<&ClientCapabilities>) -> Result<(), ErrorData> {
        let has = |extension: &str| {
            let extensions = declared.and_then(|declared| declared.extensions.as_ref());
            extensions.is_some_and(|extensions| extensions.contains_key(extension))
        };
        let needed = [(self.tasks.is_some(), TASKS_EXTENSION_ID), (self.jobs, JOBS)];
        let missing: ExtensionCapabilities = needed
            .into_iter()
            .filter(|(wanted, extension)| *wanted && !has(extension))
            .map(|(_, extension)| (extension.to_owned(), JsonObject::new()))
            .collect();
        if missing.is_empty() {
            return Ok(());
        }
        let mut required = ClientCapabilities::default();
        required.extensions = Some(missing);
        Err(ErrorData::missing_required_client_capability(required))
    }
}

/// The way to the client.
struct Stream {
    peer: Peer<RoleServer>,
    /// The client's id of the request, which every message carries.
    id: RequestId,
    /// Nothing is sent once one of them fires: the client does not listen any more, the server ends.
    closed: [CancellationToken; 2],
}

impl Stream {
    async fn closed(&self) {
        let [client, server] = &self.closed;
        tokio::select! { () = client.cancelled() => {}, () = server.cancelled() => {} }
    }

    async fn send(
        &self,
        make: impl FnOnce(NotificationMetaObject) -> ServerNotification,
    ) -> Result<(), Closed> {
        let mut meta = NotificationMetaObject::new();
        meta.set_subscription_id(self.id.clone());
        tokio::select! {
            biased;
            () = self.closed() => Err(Closed),
            sent = self.peer.send_notification(make(meta)) => sent.map_err(|_| Closed),
        }
    }

    async fn tools(&self) -> Result<(), Closed> {
        self.send(|meta| {
            let mut notification = ToolListChangedNotification::default();
            notification.extensions.insert(meta);
            ServerNotification::ToolListChangedNotification(notification)
        })
        .await
    }

    async fn custom(&self, method: &str, params: Value) -> Result<(), Closed> {
        self.send(|meta| {
            let mut notification = CustomNotification::new(method, Some(params));
            notification.extensions.insert(meta);
            ServerNotification::CustomNotification(notification)
        })
        .await
    }
}

/// A job, and what has been told of it.
struct Known {
    job: Arc<Job<End>>,
    started: bool,
    ended: bool,
}

impl<R: Runner> Server<R> {
    /// Tells what is wanted until the client takes its request back or the server ends.
    pub(super) async fn listen(
        &self,
        params: Option<&Value>,
        context: &RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        if !level::is_modern(context) {
            return Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, METHOD, None));
        }
        let parts = context.extensions.get::<Parts>();
        let packed = parts.is_some_and(|parts| parts.extensions.get::<Packed>().is_some());
        let wanted = Wanted::read(params, packed)?;
        wanted.declared(context.client_capabilities().as_ref())?;
        let _place = self.listens.try_acquire().map_err(|_| {
            let text =
                format!("busy: {MOST} subscriptions are open already; end one, or ask for more in one");
            ErrorData::invalid_request(text, None)
        })?;
        let id = context.extensions.get::<Asked>().map_or(&context.id, |asked| &asked.0);
        let closed = [context.ct.clone(), self.stop.clone()];
        let stream = Stream { peer: context.peer.clone(), id: id.clone(), closed };
        if self.told(&wanted, &stream).await.is_err() {
            tracing::debug!("a subscription has ended");
        }
        let mut meta = SubscriptionsListenResultMeta::new(stream.id);
        meta.set_server_info(self.view().info.server_info.clone());
        Ok(CustomResult::new(json!({"resultType": "complete", "_meta": *meta})))
    }

    async fn told(&self, wanted: &Wanted, stream: &Stream) -> Result<(), Closed> {
        // Before anything is looked at: what changes from here on is seen.
        let mut changes = self.jobs.changes();
        let mut known: Vec<Known> = Vec::new();
        if wanted.jobs {
            known.extend(self.jobs.all().into_iter().map(|job| {
                let (started, ended) = (job.handle.tap.has_begun(), job.ended().is_some());
                Known { job, started, ended }
            }));
        }
        let (mut accepted, mut tasks) = (Vec::new(), Vec::new());
        for id in wanted.tasks.iter().flatten() {
            // One that is not there is left out of the acknowledgement.
            if let Ok(job) = self.tasked(id)
                && !accepted.contains(id)
            {
                accepted.push(id.clone());
                tasks.push((job, None));
            }
        }
        let mut filter = Map::new();
        if wanted.tasks.is_some() {
            filter.insert("taskIds".to_owned(), accepted.into());
        }
        if wanted.jobs {
            filter.insert(JOBS.to_owned(), true.into());
        }
        let mut tools = self.views.watch().filter(|_| wanted.tools);
        if tools.is_some() {
            filter.insert("toolsListChanged".to_owned(), true.into());
        }
        let acknowledged = "notifications/subscriptions/acknowledged";
        stream.custom(acknowledged, json!({"notifications": filter})).await?;
        loop {
            for (job, told) in &mut tasks {
                let ended = job.ended().is_some();
                if *told != Some(ended) {
                    self.task(job, stream).await?;
                    *told = Some(ended);
                }
            }
            if wanted.jobs {
                self.events(&mut known, stream).await?;
            }
            let others = async {
                match &mut tools {
                    Some(watch) => self.views.changed(watch).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = stream.closed() => return Err(Closed),
                changed = changes.changed() => changed.map_err(|_| Closed)?,
                () = others => stream.tools().await?,
            }
        }
    }

    /// What `tasks/get` would say now.
    async fn task(&self, job: &Job<End>, stream: &Stream) -> Result<(), Closed> {
        let task = self.detailed(job).map_err(|error| {
            tracing::error!(job = %job.id, error = %error.message, "a task could not be told of");
            Closed
        })?;
        stream
            .send(|meta| {
                let mut notification = TaskStatusNotification::new(TaskStatusNotificationParams::new(task));
                notification.extensions.insert(meta);
                ServerNotification::TaskStatusNotification(notification)
            })
            .await
    }

    /// Events of jobs that have not been told yet, in the order of the jobs.
    async fn events(&self, known: &mut Vec<Known>, stream: &Stream) -> Result<(), Closed> {
        let there = self.jobs.all();
        known.retain(|old| !old.ended || there.iter().any(|job| job.id == old.job.id));
        for job in there {
            if !known.iter().any(|old| old.job.id == job.id) {
                known.push(Known { job, started: false, ended: false });
            }
        }
        for Known { job, started, ended } in known {
            let logger = format!("{}_start", job.handle.owner);
            if !*started && job.handle.tap.has_begun() {
                let event = push::event(job, &logger, "started", Value::Null, Value::from(0));
                stream.custom(push::EVENT, event).await?;
                *started = true;
            }
            if !*ended && let Some(end) = job.ended() {
                if !matches!(end, End::Refused(_)) {
                    let (state, exit) = (job_end::state(Some(end)), job_end::exit(Some(end)));
                    let event = push::event(job, &logger, state, exit, job_end::runtime(job));
                    stream.custom(push::EVENT, event).await?;
                }
                *ended = true;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_is_read_whole_or_refused() {
        let read = |filter: Value| Wanted::read(Some(&json!({"notifications": filter})), false);
        assert_eq!(read(json!({})).unwrap(), Wanted::default());
        let tools = read(json!({"toolsListChanged": true, "later": 5})).unwrap();
        assert_eq!(tools, Wanted { tools: true, ..Wanted::default() });
        let both = read(json!({"taskIds": ["a"], JOBS: true})).unwrap();
        assert_eq!(both, Wanted { tasks: Some(vec!["a".to_owned()]), jobs: true, tools: false });
        let many = vec!["a"; MOST_TASKS + 1];
        for wrong in [
            json!(null),
            json!([]),
            json!({"taskIds": "a"}),
            json!({"taskIds": [5]}),
            json!({"taskIds": many}),
            json!({JOBS: "yes"}),
            json!({"toolsListChanged": "yes"}),
        ] {
            assert_eq!(read(wrong).unwrap_err().code, ErrorCode::INVALID_PARAMS);
        }
        assert!(Wanted::read(None, false).is_err());
    }

    #[test]
    fn a_filter_is_packed_for_the_way_over_http_and_unpacked_again() {
        let body = json!({"id": 1, "method": METHOD, "params": {"notifications": {JOBS: true}, "_meta": {}}});
        let packed: Value = serde_json::from_slice(&packed(body.to_string().as_bytes()).unwrap()).unwrap();
        assert!(Wanted::read(packed.get("params"), true).unwrap().jobs);
        assert!(Wanted::read(packed.get("params"), false).is_err(), "nobody packs it by hand");
        assert!(Wanted::read(body.get("params"), true).is_err());
        for none in [&b"{"[..], b"5", br#"{"params": {}}"#] {
            assert!(super::packed(none).is_none());
        }
    }

    #[test]
    fn what_belongs_to_an_extension_needs_its_declaration() {
        let wanted = Wanted { tasks: Some(Vec::new()), jobs: true, tools: false };
        let error = wanted.declared(None).unwrap_err();
        assert_eq!(error.code.0, -32021);
        let required = &error.data.unwrap()["requiredCapabilities"]["extensions"];
        assert_eq!(required, &json!({TASKS_EXTENSION_ID: {}, JOBS: {}}));
        assert!(Wanted::default().declared(None).is_ok());
    }
}
